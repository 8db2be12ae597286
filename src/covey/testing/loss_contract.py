"""What every policy loss holds under every aggregation, KL, entropy and correction. Give the fixture ``policy_loss``.

The sum law: adding the loss over micro-batches and ranks gives the loss of the step, for any split, order or packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from covey.losses import TokenMean
from covey.losses.base import TokenLoss
from covey.losses.objective import Objective
from covey.testing.loss_samples import (
    AGGREGATIONS,
    Stretch,
    loss_and_gradients,
    make_sequences,
    rows_of,
    surveyed,
    terms_for,
    totals_of,
)


def layouts(s: list[Stretch]) -> list[list[list[list[Stretch]]]]:
    """Ways to split four sequences: micro-batches of rows of sequences."""
    return [
        [[[s[0]], [s[1]]], [[s[2]], [s[3]]]],
        [[[x]] for x in reversed(s)],
        [[[s[3]], [s[0]], [s[2]]], [[s[1]]]],
        [[[s[0], s[2], s[3]], [s[1]]]],
        [[[s[2], s[1]]], [[s[3], s[0]]]],
    ]


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda a: type(a).__name__)
def test_sum_law(policy_loss: TokenLoss, aggregation) -> None:
    garbage = iter([0.0, float("nan"), float("inf"), -float("inf"), 0.0] * 1000)
    for terms in terms_for(policy_loss):
        objective = Objective(policy=policy_loss, aggregation=aggregation, **terms)
        sequences = make_sequences()
        totals = totals_of(sequences)
        whole = [rows_of([[s] for s in sequences], totals, left=False, garbage=0.0)]
        loss, gradients = loss_and_gradients(objective, whole, sequences)
        assert any(g.abs().max() > 1e-4 for g in gradients)
        for number, layout in enumerate(layouts(sequences)):
            batches = [rows_of(rows, totals, left=number % 2 == 1, garbage=next(garbage)) for rows in layout]
            check_equal(loss_and_gradients(objective, batches, sequences), (loss, gradients))


def check_equal(got: tuple[torch.Tensor, Sequence], expected: tuple[torch.Tensor, Sequence]) -> None:
    """Loss and every gradient agree to 1e-10."""
    torch.testing.assert_close(got[0], expected[0], rtol=0, atol=1e-10)
    for mine, theirs in zip(got[1], expected[1], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


def regularised(policy_loss: TokenLoss) -> Objective:
    return Objective(policy=policy_loss, aggregation=TokenMean(), kl_coef=0.1, entropy_coef=0.1)


def test_untrained_tokens_have_no_gradient(policy_loss: TokenLoss) -> None:
    sequences = make_sequences()
    inputs = rows_of([[s] for s in sequences], totals_of(sequences), left=False, garbage=0.0)
    _, gradients = loss_and_gradients(regularised(policy_loss), [inputs], sequences)
    for gradient in gradients:
        assert (gradient[:2] == 0).all()


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -float("inf")])
def test_garbage_in_masked_cells_has_no_gradient_of_its_own(policy_loss: TokenLoss, garbage: float) -> None:
    """The stream itself is the leaf here: 0 times NaN in a backward pass would be NaN, though the loss is finite."""
    objective, sequences = regularised(policy_loss), make_sequences()
    inputs = rows_of([[s] for s in sequences], totals_of(sequences), left=False, garbage=garbage)
    (inputs,) = surveyed(objective, [inputs])
    assert inputs.entropy is not None
    logp, entropy = (stream.detach().requires_grad_() for stream in (inputs.logp, inputs.entropy))
    loss = objective(replace(inputs, logp=logp, entropy=entropy)).loss
    for gradient in torch.autograd.grad(loss, (logp, entropy)):
        assert torch.isfinite(gradient).all()
        assert (gradient[~inputs.trained] == 0).all()
        assert (gradient[inputs.trained] != 0).any()


@pytest.mark.parametrize("distance", [300.0, -300.0])
def test_far_policies_stay_finite(policy_loss: TokenLoss, distance: float) -> None:
    sequences = make_sequences()
    far = [replace(s, old=s.old - distance, ref=s.ref + distance, behavior=s.behavior - distance) for s in sequences]
    objective = Objective(policy=policy_loss, aggregation=TokenMean(), kl_coef=0.1)
    inputs = rows_of([[s] for s in far], totals_of(far), left=False, garbage=float("nan"))
    loss, gradients = loss_and_gradients(objective, [inputs], sequences)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in gradients)


def test_on_policy_the_gradient_is_the_policy_gradient(policy_loss: TokenLoss) -> None:
    """At a ratio of 1, minus the gradient of the summed values is A for each token, whatever the loss does later on.

    Losses that leave tokens out by rule are checked on those that they keep.
    """
    sequences = [replace(s, old=s.logp.detach(), behavior=s.logp.detach()) for s in make_sequences()]
    objective = Objective(policy=policy_loss, aggregation=TokenMean())
    inputs = rows_of([[s] for s in sequences], totals_of(sequences), left=False, garbage=0.0)
    (inputs,) = surveyed(objective, [inputs])
    logp = inputs.logp.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(policy_loss(replace(inputs, logp=logp)).values[inputs.trained].sum(), logp)
    multiplier, advantage = -gradient[inputs.trained], inputs.advantage[inputs.trained]
    kept = multiplier != 0
    assert kept.any()
    torch.testing.assert_close(multiplier[kept], advantage[kept], rtol=1e-9, atol=1e-9)
