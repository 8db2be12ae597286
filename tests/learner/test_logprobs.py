from dataclasses import replace

import pytest
import torch

from covey.advantages import GRPO
from covey.batching.layout import pad
from covey.learner.logprobs import token_logps
from covey.testing.samples import make_scored


@pytest.fixture
def micro():
    (found,) = pad(GRPO()([make_scored([1, 0, 0], lengths=[2, 6, 4])]), 1000).micro
    return found


def fixed_model(logits):
    """A model that gives the same logits [V] everywhere."""

    class Fixed(torch.nn.Module):
        def forward(self, input_ids, **_):
            return type("Out", (), {"logits": logits.expand(*input_ids.shape, -1)})

    return Fixed()


def one_token_answers():
    (found,) = pad(GRPO()([make_scored([1, 0], lengths=[1, 1])]), 1000).micro
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_each_row_equals_its_own_forward_pass(model, micro, temperature):
    micro = replace(micro, temperature=torch.full_like(micro.temperature, temperature))
    with torch.no_grad():
        logp, entropy = token_logps(model, micro)
        for row in range(3):
            ids = micro.tokens[row][micro.attended[row]]
            everything = torch.log_softmax(model(ids[None]).logits[0] / temperature, -1)
            for t in micro.trained[row].nonzero().flatten().tolist():
                before = everything[t - 1]
                assert logp[row, t].item() == pytest.approx(before[ids[t]].item(), abs=1e-5)
                assert entropy[row, t].item() == pytest.approx(-(before.exp() * before).sum().item(), abs=1e-5)
    assert (logp[~micro.trained] == 0).all()
    assert (entropy[~micro.trained] == 0).all()


def test_entropy_carries_a_gradient_only_if_asked(model, micro):
    assert not token_logps(model, micro)[1].requires_grad
    assert token_logps(model, micro, entropy_grad=True)[1].requires_grad


def test_exact_entropy_and_its_gradient():
    # logits 2 1 0 -1: H = 0.947537, dH/dz_v = -p_v (log p_v + H)
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0], dtype=torch.float64, requires_grad=True)

    model, micro = fixed_model(logits), one_token_answers()
    micro.tokens.clamp_(max=3)
    _, entropy = token_logps(model, micro, entropy_grad=True)
    assert entropy[micro.trained].tolist() == pytest.approx([0.947536963975] * 2, abs=1e-9)
    (gradient,) = torch.autograd.grad(entropy[0].sum(), logits)
    assert gradient.tolist() == pytest.approx(
        [-0.326688138915, 0.116700968108, 0.130076205674, 0.0799109651331], abs=1e-9
    )


def test_tokens_that_a_model_rules_out_do_not_spoil_the_entropy():
    logits = torch.tensor([1.0, 1.0, -torch.inf], requires_grad=True)

    model, micro = fixed_model(logits), one_token_answers()
    micro.tokens.clamp_(max=1)
    logp, entropy = token_logps(model, micro, entropy_grad=True)
    assert entropy[micro.trained].tolist() == pytest.approx([0.693147] * 2, abs=1e-6)
    (gradient,) = torch.autograd.grad(entropy.sum() + logp.sum(), logits)
    assert torch.isfinite(gradient[:2]).all()
