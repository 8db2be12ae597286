"""What every policy loss holds under every aggregation, KL and entropy term. Give the fixture ``policy_loss``.

The sum law: adding the loss over micro-batches gives the step's loss, for any split, order, padding or packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch

from covey.losses import ConstantLength, SequenceMean, TokenMean
from covey.losses.base import TokenLoss
from covey.losses.objective import Objective
from covey.types import LossInputs, Totals

AGGREGATIONS = [SequenceMean(), TokenMean(), ConstantLength(length=10)]
COEFFICIENTS = [(0.0, 0.0), (0.04, 0.0), (0.0, 0.01), (0.04, 0.01)]


@dataclass(frozen=True)
class Stretch:
    """One sequence's streams, f64[T]; the first tokens are prompt."""

    logp: torch.Tensor
    old: torch.Tensor
    ref: torch.Tensor
    entropy: torch.Tensor
    advantage: torch.Tensor
    trained: torch.Tensor


def make_sequences(seed: int = 0, lengths: Sequence[int] = (3, 7, 1, 5)) -> list[Stretch]:
    generator = torch.Generator().manual_seed(seed)

    def noise(n: int, scale: float) -> torch.Tensor:
        return scale * torch.randn(n, generator=generator, dtype=torch.float64)

    sequences = []
    for i, length in enumerate(lengths):
        n = length + 2
        logp = -1.0 + noise(n, 0.3)
        sequences.append(
            Stretch(
                logp=logp.requires_grad_(),
                old=logp.detach() + noise(n, 0.3),
                ref=logp.detach() + noise(n, 0.3),
                entropy=(1.0 + noise(n, 0.1)).requires_grad_(),
                advantage=torch.full((n,), 1.5 - i, dtype=torch.float64),
                trained=torch.arange(n) >= 2,
            )
        )
    return sequences


def totals_of(sequences: Sequence[Stretch]) -> Totals:
    return Totals(tokens=sum(int(s.trained.sum()) for s in sequences), sequences=len(sequences), groups=1)


def rows_of(packs: Sequence[Sequence[Stretch]], totals: Totals, left: bool, garbage: float) -> LossInputs:
    """Lay sequences out in rows, several to a row, padded left or right; padding and prompts hold ``garbage``."""
    width = max(sum(len(s.logp) for s in pack) for pack in packs) + 1

    def row(pack: Sequence[Stretch], name: str, fill: float, masked: bool) -> torch.Tensor:
        parts = [torch.where(s.trained, getattr(s, name), fill) if masked else getattr(s, name) for s in pack]
        body = torch.cat(parts)
        pad = torch.full((width - len(body),), fill, dtype=body.dtype)
        return torch.cat([pad, body] if left else [body, pad])

    def stream(name: str) -> torch.Tensor:
        return torch.stack([row(pack, name, garbage, masked=True) for pack in packs])

    ids = iter(range(1000))
    segment = []
    for pack in packs:
        body = torch.cat([torch.full((len(s.logp),), next(ids)) for s in pack])
        pad = torch.full((width - len(body),), -1)
        segment.append(torch.cat([pad, body] if left else [body, pad]))
    return LossInputs(
        logp=stream("logp"),
        entropy=stream("entropy"),
        advantage=stream("advantage"),
        trained=torch.stack([row(pack, "trained", 0.0, masked=False) for pack in packs]).bool(),
        segment=torch.stack(segment),
        old_logp=stream("old"),
        ref_logp=stream("ref"),
        totals=totals,
    )


def loss_and_gradients(objective: Objective, batches: Sequence[LossInputs], sequences: Sequence[Stretch]):
    leaves = [s.logp for s in sequences] + [s.entropy for s in sequences]
    loss = torch.stack([objective(inputs).loss for inputs in batches]).sum()
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    return loss.detach(), [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True)]


def layouts(s: list[Stretch]) -> list[list[list[list[Stretch]]]]:
    """Ways to split four sequences: micro-batches of rows of sequences."""
    return [
        [[[s[0]], [s[1]]], [[s[2]], [s[3]]]],
        [[[x]] for x in s],
        [[[x]] for x in reversed(s)],
        [[[s[3]], [s[0]], [s[2]]], [[s[1]]]],
        [[[s[0], s[2], s[3]], [s[1]]]],
        [[[s[2], s[1]]], [[s[3], s[0]]]],
    ]


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize(("kl_coef", "entropy_coef"), COEFFICIENTS)
def test_sum_law(policy_loss: TokenLoss, aggregation, kl_coef: float, entropy_coef: float) -> None:
    objective = Objective(policy=policy_loss, aggregation=aggregation, kl_coef=kl_coef, entropy_coef=entropy_coef)
    sequences = make_sequences()
    totals = totals_of(sequences)
    whole = [rows_of([[s] for s in sequences], totals, left=False, garbage=0.0)]
    loss, gradients = loss_and_gradients(objective, whole, sequences)
    assert any(g.abs().max() > 1e-4 for g in gradients)
    for layout in layouts(sequences):
        for left, garbage in ((False, 0.0), (True, float("nan")), (False, float("inf")), (True, -float("inf"))):
            batches = [rows_of(rows, totals, left, garbage) for rows in layout]
            other_loss, other_gradients = loss_and_gradients(objective, batches, sequences)
            torch.testing.assert_close(other_loss, loss, rtol=0, atol=1e-10)
            for got, expected in zip(other_gradients, gradients, strict=True):
                torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


def test_untrained_tokens_have_no_gradient(policy_loss: TokenLoss) -> None:
    objective = Objective(policy=policy_loss, aggregation=TokenMean(), kl_coef=0.1, entropy_coef=0.1)
    sequences = make_sequences()
    inputs = rows_of([[s] for s in sequences], totals_of(sequences), left=False, garbage=0.0)
    _, gradients = loss_and_gradients(objective, [inputs], sequences)
    for gradient in gradients:
        assert (gradient[:2] == 0).all()


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -float("inf")])
def test_garbage_in_masked_cells_has_no_gradient_of_its_own(policy_loss: TokenLoss, garbage: float) -> None:
    """The stream itself is the leaf here: 0 times NaN in a backward pass would be NaN, though the loss is finite."""
    objective = Objective(policy=policy_loss, aggregation=TokenMean(), kl_coef=0.1, entropy_coef=0.1)
    sequences = make_sequences()
    inputs = rows_of([[s] for s in sequences], totals_of(sequences), left=False, garbage=garbage)
    assert inputs.entropy is not None
    logp, entropy = (stream.detach().requires_grad_() for stream in (inputs.logp, inputs.entropy))
    loss = objective(replace(inputs, logp=logp, entropy=entropy)).loss
    for gradient in torch.autograd.grad(loss, (logp, entropy)):
        assert torch.isfinite(gradient).all()
        assert (gradient[~inputs.trained] == 0).all()
        assert (gradient[inputs.trained] != 0).any()


def test_far_policies_stay_finite(policy_loss: TokenLoss) -> None:
    sequences = make_sequences()
    far = [replace(s, old=s.old - 300.0, ref=s.ref + 300.0) for s in sequences]
    objective = Objective(policy=policy_loss, aggregation=TokenMean(), kl_coef=0.1)
    inputs = rows_of([[s] for s in far], totals_of(far), left=False, garbage=float("nan"))
    loss, gradients = loss_and_gradients(objective, [inputs], sequences)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in gradients)
