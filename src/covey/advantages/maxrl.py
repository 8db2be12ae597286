"""MaxRL: the deviation from the group mean in units of the mean, which climbs the log of the pass rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from covey.advantages.base import check_knobs, credit_each, rewards_of
from covey.errors import AdvantageError
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxRL:
    """A_i = (r_i - mean) / (mean + eps); an all-wrong group gets 0 (arXiv 2602.02710, eq. 9).

    For 0/1 rewards the weight of a prompt with pass rate p is (1 - (1 - p)^(n-1)) / p: towards the gradient of log p
    as groups grow, so hard prompts count more. Raises AdvantageError for negative rewards, where the mean is no rate.
    """

    eps: float = 1e-6
    tolerance: float = 1e-8
    bounded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_knobs(eps=self.eps, tolerance=self.tolerance)

    def of_rewards(self, rewards: np.ndarray) -> np.ndarray:
        """Advantages f64[n] of one group's usable rewards f64[n] >= 0, not all equal."""
        return (rewards - rewards.mean()) / (rewards.mean() + self.eps)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        for group in groups:
            lowest = np.nanmin(rewards_of(group), initial=0.0)
            if lowest < 0:
                raise AdvantageError(
                    f"MaxRL divides by the mean reward and takes rewards of 0 and more, got {lowest} for prompt "
                    f"{group.group.prompt.uid!r}; shift the reward or use another advantage"
                )
        return credit_each(groups, self.of_rewards, self.tolerance)
