"""AdamW in its three forms steps as the plain one does, as near as its moments allow."""

import sys

import pytest
import torch

from covey.errors import MissingExtraError, ModelError
from covey.learner.optimizer import OptimizerKnobs, make_optimizer


def weights():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in ((64, 100), (7, 3), (5,))]


def stepped(knobs, steps=10, lr=1e-2):
    """Weights after some steps with gradients of growing size, and the optimizer."""
    trained = weights()
    optimizer = make_optimizer(trained, lr, knobs)
    noise = torch.Generator().manual_seed(1)
    for step in range(steps):
        for weight in trained:
            weight.grad = torch.randn(weight.shape, generator=noise) * (1 + step)
        optimizer.step()
    return trained, optimizer


def by_hand(steps=10, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, decay=0.0):
    """The formula of arXiv 1711.05101, algorithm 2, in float64."""
    found, noise = [w.detach().double() for w in weights()], torch.Generator().manual_seed(1)
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in found]
    for step in range(1, steps + 1):
        for weight, (first, second) in zip(found, moments, strict=True):
            grad = (torch.randn(weight.shape, generator=noise) * step).double()
            first.mul_(betas[0]).add_(grad, alpha=1 - betas[0])
            second.mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
            if weight.ndim >= 2:
                weight.mul_(1 - lr * decay)
            weight.sub_(lr * (first / (1 - betas[0] ** step)) / ((second / (1 - betas[1] ** step)).sqrt() + eps))
    return found


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("states", ["float32", "8bit"])
def test_steps_are_those_of_the_formula(states, decay):
    found, _ = stepped(OptimizerKnobs(states=states, weight_decay=decay))
    for number, (got, expected) in enumerate(zip(found, by_hand(decay=decay), strict=True)):
        gap = (got.double() - expected).abs()
        coarse = states == "8bit" and number == 0
        assert gap.max() < (1e-2 if coarse else 2e-6)  # ten steps of at most about 1e-2 each
        assert gap.mean() < (1e-3 if coarse else 5e-7)


def test_moments_in_eight_bits_take_a_quarter():
    _, optimizer = stepped(OptimizerKnobs(states="8bit"))
    large, small = (optimizer.state[optimizer.param_groups[0]["params"][number]] for number in (0, 1))
    bytes_each = sum(large[name].nbytes for name in ("state1", "state2", "absmax1", "absmax2")) / 6400
    assert 2.0 < bytes_each < 2.05
    assert small["state1"].dtype == torch.float32


def test_paged_moments_need_a_gpu():
    with pytest.raises(ModelError, match="the model is on cpu"):
        make_optimizer(weights(), 1e-3, OptimizerKnobs(paged=True))


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(MissingExtraError, match=r"covey\[bitsandbytes\]"):
        make_optimizer(weights(), 1e-3, OptimizerKnobs(states="8bit"))
