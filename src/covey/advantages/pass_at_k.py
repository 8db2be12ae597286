"""Pass@k Training: advantages from the mean and spread of the reward of random k-subsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt
from typing import ClassVar

import numpy as np

from covey.advantages.base import check_knobs, credited, rewards_of
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAtKTraining:
    """A(right) = (1 - rho) / (sigma + eps), A(wrong) = (1 - rho - C(n-c-1, k-1) / C(n-1, k-1)) / (sigma + eps).

    rho = 1 - C(n-c, k) / C(n, k) is pass@k with c of n right, sigma = sqrt(rho (1 - rho)): the expectation over all
    groupings of n responses by k, in closed form (arXiv 2508.10751, section 2.4). Right and wrong come from the raw
    correctness, and a response without it gets 0. With sigma = 0, or fewer than k responses, the group teaches nothing.
    """

    k: int = 4
    eps: float = 1e-6
    tolerance: float = 1e-8
    ignores_total: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_knobs(eps=self.eps, tolerance=self.tolerance)
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")

    @property
    def smallest_group(self) -> int:
        """With k responses every k-subset is the whole group, and none of them differs from it."""
        return self.k + 1

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        return [self._credit(group) for group in groups]

    def _credit(self, group: ScoredGroup) -> CreditedGroup:
        usable = ~np.isnan(rewards_of(group))
        right = np.array([bool(score.correct) for score in group.scores])
        usable &= np.array([score.correct is not None for score in group.scores])
        when_right, when_wrong = self.of_counts(int(usable.sum()), int((right & usable).sum()))
        values = np.where(usable, np.where(right, when_right, when_wrong), np.nan)
        return credited(group, values, self.tolerance)

    def of_counts(self, n: int, c: int) -> tuple[float, float]:
        """Advantages of a right and of a wrong response when ``c`` of ``n`` are right."""
        if n < max(2, self.k):
            return 0.0, 0.0
        rho = 1 - comb(n - c, self.k) / comb(n, self.k)
        sigma = sqrt(rho * (1 - rho))
        if sigma == 0:
            return 0.0, 0.0
        alone = comb(n - c - 1, self.k - 1) / comb(n - 1, self.k - 1) if n > c else 0.0
        return (1 - rho) / (sigma + self.eps), (1 - rho - alone) / (sigma + self.eps)
