"""Group mean as the baseline, the whole batch's spread as the scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey.advantages.base import check_knobs, credit_each, rewards_of
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStd:
    """A_i = (r_i - mean of the group) / (S + eps), S the sample standard deviation of all rewards of the batch.

    Keeps hard and easy prompts comparable, as one scale serves all groups (arXiv 2508.08221, "batch" scaling).
    S is of the raw rewards; that of rewards centred in their groups would be another, smaller number.
    """

    eps: float = 1e-4
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_knobs(eps=self.eps, tolerance=self.tolerance)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        everything = np.concatenate([rewards_of(group) for group in groups]) if groups else np.zeros(0)
        present = everything[~np.isnan(everything)]
        spread = present.std(ddof=1) if present.size > 1 else 0.0
        return credit_each(groups, lambda r: (r - r.mean()) / (spread + self.eps), self.tolerance)
