"""OPO: the optimal baseline weighs each reward by the length of its response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey.advantages.base import check_knobs, credited, is_degenerate, rewards_of
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class OPO:
    """A_i = r_i - sum_j(T_j r_j) / sum_j(T_j), T the trained tokens (arXiv 2505.23585, eq. 8); of a response
    that only counts in the baseline, the sampled ones.

    The variance-minimal baseline if the squared norm of a response's score grows with its length. It contains the
    response itself.
    """

    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        return [self._credit(group) for group in groups]

    def _credit(self, group: ScoredGroup) -> CreditedGroup:
        rewards = rewards_of(group)
        if is_degenerate(rewards, self.tolerance):
            return credited(group, np.zeros_like(rewards), self.tolerance)
        present = ~np.isnan(rewards)
        lengths = np.array(
            [
                mask.sum() or member.sampled_tokens
                for mask, member in zip(group.trained, group.group.members, strict=True)
            ],
            dtype=np.float64,
        )
        baseline = (lengths[present] * rewards[present]).sum() / lengths[present].sum()
        return credited(group, rewards - baseline, self.tolerance)
