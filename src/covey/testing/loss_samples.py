"""Hand-made streams for tests of losses: sequences with all that a loss may look at, laid out in any way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from covey.losses import (
    CISPO,
    CPGD,
    GMPO,
    GSPO,
    SAPO,
    TOPR,
    VESPO,
    ClipCov,
    ConstantLength,
    DualClip,
    GSPOToken,
    Kimi,
    KLCov,
    PPOClip,
    PromptMean,
    Reinforce,
    SequenceMean,
    SequenceSum,
    TokenMean,
    TopEntropy,
)
from covey.losses.base import TokenLoss
from covey.losses.corrections import OPSM, Geometric, IcePop, K3Filter, SequenceMIS, SequenceTIS, TokenMIS, TokenTIS
from covey.losses.corrections.apply import Corrections
from covey.losses.kl import KLTerm
from covey.losses.objective import Objective
from covey.types import LossInputs, Totals

# Bounds so wide or narrow that the random streams of the contract meet them.
LOSSES_TRIED: list[TokenLoss] = [
    PPOClip(),
    PPOClip(clip_low=0.1, clip_high=0.3),
    DualClip(ratio_max=1.3),
    Reinforce(),
    GSPO(),
    GSPO(clip_low=0.2, clip_high=0.2),
    GSPOToken(clip_low=0.2, clip_high=0.2),
    CISPO(ratio_max=1.2, ratio_min=0.9),
    SAPO(),
    GMPO(),
    TOPR(),
    CPGD(),
    VESPO(),
    Kimi(),
    ClipCov(share=0.2, cov_low=0.0, cov_high=1.0),
    KLCov(share=0.2),
    TopEntropy(share=0.3),
]

AGGREGATIONS = [SequenceMean(), SequenceSum(), TokenMean(), PromptMean(), ConstantLength(length=10)]

KL_TERMS = [
    *(KLTerm(estimator=name) for name in ("k1", "k2", "k3", "straight_through", "exact")),
    *(KLTerm(estimator=name, unbiased=True) for name in ("k1", "k2", "k3")),
]

CORRECTIONS = [
    Corrections(parts=(TokenTIS(ratio_max=1.1),)),
    Corrections(parts=(TokenMIS(ratio_max=1.1), Geometric(ratio_min=0.8, ratio_max=1.5)), normalize=True),
    Corrections(parts=(IcePop(ratio_min=0.8, ratio_max=1.3), OPSM(delta=0.01))),
    Corrections(parts=(SequenceTIS(ratio_max=1.5), K3Filter(kl_max=0.1)), normalize=True),
    Corrections(parts=(SequenceMIS(ratio_max=1.5),)),
]


@dataclass(frozen=True)
class Stretch:
    """One sequence's streams, f64[T]; the first tokens are prompt. ``group`` ties siblings."""

    logp: torch.Tensor
    old: torch.Tensor
    behavior: torch.Tensor
    ref: torch.Tensor
    entropy: torch.Tensor
    old_entropy: torch.Tensor
    kl_exact: torch.Tensor
    advantage: torch.Tensor
    trained: torch.Tensor
    weight: torch.Tensor
    group_tokens: torch.Tensor


def make_sequences(seed: int = 0, lengths: Sequence[int] = (3, 7, 1, 5), siblings: int = 2) -> list[Stretch]:
    """Random sequences of so many trained tokens; every ``siblings`` neighbours are a group."""
    generator = torch.Generator().manual_seed(seed)

    def noise(n: int, scale: float) -> torch.Tensor:
        return scale * torch.randn(n, generator=generator, dtype=torch.float64)

    sequences = []
    for i, length in enumerate(lengths):
        n, first = length + 2, i - i % siblings
        logp = -1.0 + noise(n, 0.5)
        old = logp + noise(n, 0.3)
        sequences.append(
            Stretch(
                logp=logp.clone().requires_grad_(),
                old=old,
                behavior=old + noise(n, 0.2),
                ref=logp + noise(n, 0.3),
                entropy=(1.0 + noise(n, 0.1)).requires_grad_(),
                old_entropy=1.0 + noise(n, 0.5),
                kl_exact=noise(n, 0.1).abs().requires_grad_(),
                advantage=torch.full((n,), 1.5 - i, dtype=torch.float64),
                trained=torch.arange(n) >= 2,
                weight=torch.full((n,), 0.5 + 0.3 * (i // siblings), dtype=torch.float64),
                group_tokens=torch.full((n,), sum(lengths[first : first + siblings])),
            )
        )
    return sequences


def inputs_of(
    log_ratios: Sequence[Sequence[float]],
    advantages: Sequence[float | Sequence[float]],
    logp: Sequence[Sequence[float]] | None = None,
) -> LossInputs:
    """Rows of log(pi / pi_old), one sequence each (ragged, right padded), one advantage a row or a token.

    The sampler is the old policy. ``logp`` is -1 + log-ratio where it is not given.
    """
    width = max(map(len, log_ratios))
    ratios, trained = torch.zeros(len(log_ratios), width, dtype=torch.float64), torch.zeros(len(log_ratios), width)
    now, credit = torch.zeros_like(ratios), torch.zeros_like(ratios)
    for i, row in enumerate(log_ratios):
        ratios[i, : len(row)] = torch.tensor(row, dtype=torch.float64)
        now[i, : len(row)] = torch.tensor(logp[i], dtype=torch.float64) if logp else ratios[i, : len(row)] - 1
        credit[i, : len(row)] = torch.as_tensor(advantages[i], dtype=torch.float64)
        trained[i, : len(row)] = 1
    mask = trained.bool()
    return LossInputs(
        logp=now.clone().requires_grad_(),
        entropy=None,
        advantage=credit,
        trained=mask,
        segment=torch.where(mask, torch.arange(len(log_ratios))[:, None], -1),
        old_logp=now - ratios,
        ref_logp=None,
        totals=Totals(tokens=int(mask.sum()), sequences=len(log_ratios), groups=1),
        behavior_logp=now - ratios,
    )


def totals_of(sequences: Sequence[Stretch], siblings: int = 2) -> Totals:
    """Counts over all of them."""
    groups = -(-len(sequences) // siblings)
    return Totals(tokens=sum(int(s.trained.sum()) for s in sequences), sequences=len(sequences), groups=groups)


def rows_of(packs: Sequence[Sequence[Stretch]], totals: Totals, left: bool, garbage: float) -> LossInputs:
    """Lay sequences out in rows, several to a row, padded left or right; padding and prompts hold ``garbage``."""
    width = max(sum(len(s.logp) for s in pack) for pack in packs) + 1

    def row(parts: Sequence[torch.Tensor], fill: float) -> torch.Tensor:
        body = torch.cat(list(parts))
        pad = torch.full((width - len(body),), fill, dtype=body.dtype)
        return torch.cat([pad, body] if left else [body, pad])

    def stream(name: str) -> torch.Tensor:
        return torch.stack(
            [row([torch.where(s.trained, getattr(s, name), garbage) for s in pack], garbage) for pack in packs]
        )

    def exact(name: str) -> torch.Tensor:
        return torch.stack([row([getattr(s, name) for s in pack], 0) for pack in packs])

    ids = iter(range(1000))
    return LossInputs(
        logp=stream("logp"),
        entropy=stream("entropy"),
        advantage=stream("advantage"),
        trained=exact("trained").bool(),
        segment=torch.stack([row([torch.full((len(s.logp),), next(ids)) for s in pack], -1) for pack in packs]),
        old_logp=stream("old"),
        ref_logp=stream("ref"),
        totals=totals,
        behavior_logp=stream("behavior"),
        old_entropy=stream("old_entropy"),
        kl_exact=stream("kl_exact"),
        weight=stream("weight"),
        group_tokens=exact("group_tokens"),
    )


def surveyed(objective: Objective, batches: Sequence[LossInputs]) -> list[LossInputs]:
    """The same micro-batches with what the objective must know of the whole step."""
    if not objective.surveys:
        return list(batches)
    first, segments = 0, []
    for inputs in batches:
        segments.append(inputs.segment[inputs.trained] + first)
        first += int(inputs.segment.max()) + 1

    def row(name: str) -> torch.Tensor:
        return torch.cat([getattr(inputs, name)[inputs.trained] for inputs in batches])[None].detach()

    old = row("old_logp")
    step = LossInputs(
        logp=old,
        entropy=None,
        advantage=row("advantage"),
        trained=row("trained"),
        segment=torch.cat(segments)[None],
        old_logp=old,
        ref_logp=row("ref_logp"),
        totals=batches[0].totals,
        behavior_logp=row("behavior_logp"),
        old_entropy=row("old_entropy"),
    )
    found = objective.survey(step)
    return [replace(inputs, statistics=found) for inputs in batches]


def loss_and_gradients(
    objective: Objective, batches: Sequence[LossInputs], sequences: Sequence[Stretch]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The summed loss of all micro-batches, and its gradient by every log-prob, entropy and exact KL."""
    leaves = [leaf for s in sequences for leaf in (s.logp, s.entropy, s.kl_exact)]
    loss = torch.stack([objective(inputs).loss for inputs in surveyed(objective, batches)]).sum()
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    return loss.detach(), [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True)]


def terms_for(policy_loss: TokenLoss) -> Iterator[dict[str, Any]]:
    """Every KL term with and without entropy, and every correction that the loss may stand beside."""
    for entropy_coef in (0.0, 0.01):
        yield {"entropy_coef": entropy_coef}
        for term in KL_TERMS:
            yield {"kl_coef": 0.04, "kl": term, "entropy_coef": entropy_coef}
    if not getattr(policy_loss, "off_policy", False):
        for corrections in CORRECTIONS:
            yield {"corrections": corrections, "kl_coef": 0.04}
