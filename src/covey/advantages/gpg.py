"""GPG: group mean as the baseline, scaled up by the share of responses that carry a signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey.advantages.base import check_knobs, credit_each, is_degenerate, rewards_of
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class GPG:
    """A_i = alpha (r_i - mean) / norm, alpha = responses / responses in groups that are not degenerate.

    arXiv 2504.02546, eq. 5, as its authors' code counts: groups without contrast make alpha larger, so that they do
    not shrink the step. Meant for the ``reinforce`` loss.
    """

    norm: float = 1.0
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)
        if not self.norm > 0:
            raise ValueError(f"norm must be positive, got {self.norm}")

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        rewards = [rewards_of(group) for group in groups]
        sizes = [int((~np.isnan(values)).sum()) for values in rewards]
        useful = sum(n for n, values in zip(sizes, rewards, strict=True) if not is_degenerate(values, self.tolerance))
        alpha = sum(sizes) / useful if useful else 0.0
        return credit_each(groups, lambda r: alpha * (r - r.mean()) / self.norm, self.tolerance)
