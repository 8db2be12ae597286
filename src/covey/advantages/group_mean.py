"""The group mean as the only baseline, without division by the spread (Dr. GRPO)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from covey.advantages.base import check_knobs, credit_each
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMean:
    """A_i = r_i - mean(r) (Dr. GRPO, arXiv 2503.20783, section 3.2).

    Keeps the reward's scale, so hard and easy prompts are not weighted up. Its expectation is (G - 1) / G of the
    policy gradient, because the mean contains the sample itself.
    """

    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        return credit_each(groups, lambda rewards: rewards - rewards.mean(), self.tolerance)
