from contextlib import nullcontext

import numpy as np
import pytest
import torch

from covey.advantages import GRPO
from covey.batching.layout import pad
from covey.errors import ModelError
from covey.learner.learner import Learner
from covey.learner.logprobs import token_divergences, token_logps
from covey.learner.reference import AdapterOff, FrozenCopy, make_reference
from covey.learner.schedule import Schedule
from covey.losses import PPOClip, SequenceMean
from covey.losses.kl import KLTerm
from covey.losses.objective import Objective
from covey.testing.samples import make_scored, random_llama

# PEFT still asks transformers for an attribute by its older name.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")


def learner_of(model, estimator="k3", kl_coef=0.1, where="loss"):
    objective = Objective(
        policy=PPOClip(), aggregation=SequenceMean(), kl_coef=kl_coef, kl=KLTerm(estimator=estimator, where=where)
    )
    return Learner(model, objective, Schedule(peak=1e-2, steps=10))


def batch():
    return pad(GRPO()([make_scored([1, 0, 0], lengths=[2, 6, 4])]), 1000, keep_silent=True)


@pytest.fixture
def adapted():
    """A model with a LoRA adapter that has been trained a little."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    model = peft.get_peft_model(random_llama(), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.normal_(std=0.5)
    return model


def test_nothing_needed_nothing_loaded():
    assert learner_of(random_llama(), kl_coef=0.0).reference is None


def test_an_adapter_is_switched_off_and_no_copy_made(adapted):
    learner = learner_of(adapted)
    assert isinstance(learner.reference, AdapterOff)
    (micro,) = learner.annotate(batch()).micro
    base = random_llama()
    with torch.no_grad():
        wanted = token_logps(base, micro)[0]
        current = token_logps(adapted, micro)[0]
    torch.testing.assert_close(micro.ref_logp, wanted, rtol=0, atol=1e-6)
    assert (current - wanted)[micro.trained].abs().max() > 1e-2  # and it is on again


@pytest.mark.parametrize("estimator", ["k3", "exact"])
def test_only_the_adapter_learns(adapted, estimator):
    learner = learner_of(adapted, estimator)
    before = {name: p.detach().clone() for name, p in adapted.named_parameters()}
    result = learner.step(learner.annotate(batch()), 0)
    assert result.metrics["kl/ref"] > 1e-3
    moved = {name for name, p in adapted.named_parameters() if not torch.equal(p, before[name])}
    assert moved
    assert all("lora_" in name for name in moved)


def test_what_cannot_be_refreshed_says_so(adapted):
    with pytest.raises(ModelError, match=r"set kl.refresh = 0"):
        make_reference(adapted).refresh()


def test_a_frozen_copy_stays_until_it_is_refreshed():
    model = random_llama()
    reference = FrozenCopy(model)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert reference.state_dict() is None  # the starting model is enough
    assert not torch.equal(next(reference.model.parameters()), next(model.parameters()))
    reference.refresh()
    assert torch.equal(next(reference.model.parameters()), next(model.parameters()))
    again = FrozenCopy(random_llama(seed=1))
    again.load_state_dict(reference.state_dict())
    for p, q in zip(again.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(p, q)


def test_the_exact_divergence_is_the_mean_over_the_vocabulary():
    policy, reference = random_llama().double(), random_llama(seed=1).double()
    (micro,) = batch().micro
    logp, entropy, divergence, ref = token_divergences(policy, lambda: nullcontext(reference), micro)
    row, t = (index[0].item() for index in micro.trained.nonzero(as_tuple=True))
    ids = micro.tokens[row][micro.attended[row]]
    p, q = (torch.log_softmax(m(ids[None]).logits[0, t - 1], -1) for m in (policy, reference))
    assert divergence[row, t].item() == pytest.approx((p.exp() * (p - q)).sum().item(), abs=1e-12)
    assert (logp[row, t].item(), ref[row, t].item()) == pytest.approx((p[ids[t]].item(), q[ids[t]].item()), abs=1e-12)
    assert entropy[row, t].item() == pytest.approx(-(p.exp() * p).sum().item(), abs=1e-12)
    assert divergence.requires_grad
    assert not ref.requires_grad
    assert (divergence[~micro.trained] == 0).all()


def test_the_exact_divergence_of_a_model_from_itself_is_zero_and_pulls_nowhere():
    model = random_llama().double()
    (micro,) = batch().micro
    divergence = token_divergences(model, lambda: nullcontext(model), micro)[2]
    assert divergence.abs().max() < 1e-12
    divergence.sum().backward()
    assert all(p.grad is None or p.grad.abs().max() < 1e-10 for p in model.parameters())


@pytest.mark.parametrize("budget", [1, 12, 1000])
def test_reference_log_probs_of_groups_do_not_depend_on_the_budget(budget):
    learner = learner_of(random_llama(), "k1", where="reward")
    groups = [make_scored([1, 0], lengths=[2, 6]), make_scored([None], lengths=[9])]
    found = learner.reference_logps(groups, budget)
    assert [len(rows) for rows in found] == [2, 1]
    for group, rows in zip(groups, found, strict=True):
        for member, stream in zip(group.group.members, rows, strict=True):
            assert np.isnan(stream[~member.sampled]).all()
            with torch.no_grad():
                table = torch.log_softmax(random_llama()(torch.tensor(member.tokens)[None]).logits[0, :-1], -1)
            wanted = table.gather(1, torch.tensor(member.tokens)[1:, None])[:, 0].numpy()
            np.testing.assert_allclose(stream[member.sampled], wanted[member.sampled[1:]], atol=1e-5)
    with pytest.raises(ValueError, match="no reference"):
        learner_of(random_llama(), kl_coef=0.0).reference_logps(groups, 10)
