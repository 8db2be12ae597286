"""RLOO: each reward against the mean of the other siblings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey.advantages.base import check_knobs, credit_each
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class RLOO:
    """A_i = r_i - mean of r_j, j != i = n / (n - 1) (r_i - mean) (arXiv 2402.14740, section 3).

    The baseline does not contain the response it is for, so the policy gradient is unbiased.
    """

    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)

    @staticmethod
    def of_rewards(rewards: np.ndarray) -> np.ndarray:
        """Advantages f64[n] of one group's usable rewards f64[n], n >= 2."""
        return (rewards - rewards.mean()) * rewards.size / (rewards.size - 1)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        return credit_each(groups, self.of_rewards, self.tolerance)
