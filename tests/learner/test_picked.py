import pytest
import torch

from covey.learner.picked import picked_and_entropy


def composed(logits, tokens, temperature):
    table = torch.log_softmax(logits / temperature[:, None], -1)
    return table.gather(1, tokens[:, None])[:, 0], -(table.exp() * table).sum(-1)


def draw(dtype=torch.float64):
    torch.manual_seed(0)
    logits = torch.randn(5, 11, dtype=dtype, requires_grad=True)
    return logits, torch.tensor([0, 3, 3, 10, 7])


@pytest.mark.parametrize("temperature", [1.0, 0.7, "each its own"])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (0.7, -0.3)])
def test_values_and_gradients_are_those_of_the_composition(temperature, weights):
    logits, tokens = draw()
    heat = torch.linspace(0.5, 2, 5) if isinstance(temperature, str) else torch.full((5,), temperature)
    found = []
    for function in (lambda *a: picked_and_entropy(*a, entropy_grad=True), composed):
        logp, entropy = function(logits, tokens, heat.double())
        loss = (torch.arange(5) * (weights[0] * logp + weights[1] * entropy)).sum()
        found.append((logp, entropy, *torch.autograd.grad(loss, logits)))
    for mine, expected in zip(*found, strict=True):
        torch.testing.assert_close(mine, expected, rtol=0, atol=1e-12)


def test_gradcheck():
    logits, tokens = draw()
    heat = torch.linspace(0.5, 2, 5, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: picked_and_entropy(z, tokens, heat, entropy_grad=True), logits)


def test_one_of_the_two_may_be_left_out():
    logits, tokens = draw()
    logp, entropy = picked_and_entropy(logits, tokens, torch.ones(5))
    assert not entropy.requires_grad
    assert torch.autograd.grad(logp.sum(), logits)[0].sum(-1).abs().max() < 1e-12
    _, entropy = picked_and_entropy(logits, tokens, torch.ones(5), entropy_grad=True)
    assert torch.autograd.grad(entropy.sum(), logits)[0].sum(-1).abs().max() < 1e-12


def test_nan_logits_show():
    logits, tokens = draw()
    with torch.no_grad():
        logits[2, 1] = torch.nan
    assert picked_and_entropy(logits, tokens, torch.ones(5))[0].isnan().tolist() == [False, False, True, False, False]
