"""ReMax: each reward against that of the greedy response to the same prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from covey.advantages.base import check_knobs, credited, rewards_of, usable_rewards
from covey.errors import AdvantageError
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ReMax:
    """A_i = r_i - r(greedy) (arXiv 2310.10505, algorithm 1).

    Unbiased, and meaningful for a single response. Costs one more response a prompt, which the rollout samples at
    temperature 0 and nobody trains on. Siblings with equal rewards still have an advantage if greedy did better or
    worse. A prompt whose greedy response could not be judged teaches nothing in that step.
    """

    tolerance: float = 1e-8
    needs: ClassVar[frozenset[str]] = frozenset({"greedy"})
    smallest_group: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        return [credited(group, rewards_of(group) - self._baseline(group), self.tolerance) for group in groups]

    @staticmethod
    def _baseline(group: ScoredGroup) -> float:
        if group.greedy is None:
            raise AdvantageError(
                f"ReMax needs the greedy response of prompt {group.group.prompt.uid!r}, but the group has none: "
                "sample it with rollout(..., greedy=True)"
            )
        if group.shaped is not None:
            return group.shaped.greedy
        return float(usable_rewards([group.greedy.total])[0])  # NaN if it could not be judged
