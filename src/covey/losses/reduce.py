"""How values per token become one number. The denominators are data: counted once for the whole optimizer step.

Every class divides by a count over all micro-batches and ranks, so the sum over any split of the step is the same
(the sum law). Cells that are not trained may hold NaN or infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.types import Totals


def trained_per_sequence(trained: torch.Tensor, segment: torch.Tensor) -> torch.Tensor:
    """Number of trained tokens of the sequence that each token belongs to, i64[B, S]; 0 on padding.

    Sequences are found by ``segment``, not by row, so that packed rows count right. A sequence is never split over
    micro-batches.
    """
    ids = torch.where(segment < 0, segment.max().clamp(min=-1) + 1, segment)
    counts = torch.zeros(int(ids.max()) + 1, dtype=torch.int64, device=segment.device)
    counts.scatter_add_(0, ids.reshape(-1), trained.reshape(-1).long())
    return torch.where(segment < 0, 0, counts[ids])


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceMean:
    """(1/B) sum_i (1/T_i) sum_t l_it: the GRPO paper's 1/|o_i| (arXiv 2402.03300, eq. 3).

    Every response weighs the same, so a token of a short response weighs more than one of a long response.
    """

    def __call__(
        self, values: torch.Tensor, trained: torch.Tensor, segment: torch.Tensor, totals: Totals, /
    ) -> torch.Tensor:
        lengths = trained_per_sequence(trained, segment).clamp(min=1)
        return (torch.where(trained, values, 0.0) / lengths).sum() / totals.sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMean:
    """(1/N) sum_it l_it over all trained tokens of the step (DAPO as it is implemented, arXiv 2503.14476)."""

    def __call__(
        self, values: torch.Tensor, trained: torch.Tensor, segment: torch.Tensor, totals: Totals, /
    ) -> torch.Tensor:
        return torch.where(trained, values, 0.0).sum() / totals.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantLength:
    """(1/(B L)) sum_it l_it with a constant L, by default the response limit (Dr. GRPO, arXiv 2503.20783)."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1 token, got {self.length}")

    def __call__(
        self, values: torch.Tensor, trained: torch.Tensor, segment: torch.Tensor, totals: Totals, /
    ) -> torch.Tensor:
        return torch.where(trained, values, 0.0).sum() / (totals.sequences * self.length)
