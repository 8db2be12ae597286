"""GRPO: each reward against its group's mean, in units of the group's standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey.advantages.base import check_knobs, credit_each
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPO:
    """A_i = (r_i - mean(r)) / (std(r) + eps) (DeepSeekMath, arXiv 2402.03300, section 4.1.2).

    The paper writes the population standard deviation (``std_ddof=0``); the sample one (1, the default) is what most
    implementations use. They differ by sqrt(G / (G - 1)): 7 % at G = 8.
    A group whose rewards agree to within ``tolerance`` gets exactly 0.
    """

    std_ddof: int = 1
    eps: float = 1e-4
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_knobs(eps=self.eps, tolerance=self.tolerance, std_ddof=self.std_ddof)

    def of_rewards(self, rewards: np.ndarray) -> np.ndarray:
        """Advantages f64[n] of one group's usable rewards f64[n], n >= 2."""
        return (rewards - rewards.mean()) / (rewards.std(ddof=self.std_ddof) + self.eps)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        return credit_each(groups, self.of_rewards, self.tolerance)
