"""DAPO's dynamic sampling: groups without contrast are thrown away, and others sampled in their place."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from covey.loop.strategies.base import Collected, Desk, scaled
from covey.types import ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill:
    """Keep a group iff 0 < right < judged, and sample further prompts until the step is full (arXiv 2503.14476).

    Right is the raw correctness: a shaped reward differs by length or format in groups that are all wrong. A round asks
    for as many prompts as the acceptance so far suggests, at most a whole step's. After ``max_rounds`` the step
    trains on what there is (``fallback = "short"``, with its own denominators), or is filled with groups that were
    thrown away (``"keep"``: they count in the denominators).

    Rejected groups would have had advantage 0, so filtering multiplies the expected gradient by 1 / acceptance, the
    same for all prompts: a larger step, not another direction. ``undo_scale`` takes it out again.
    """

    max_rounds: int = 4
    fallback: Literal["short", "keep"] = "short"
    undo_scale: bool = False

    def __post_init__(self) -> None:
        if self.max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, got {self.max_rounds}")

    async def __call__(self, desk: Desk, /) -> Collected:
        kept: list[ScoredGroup] = []
        rejected: list[ScoredGroup] = []
        rounds = 0
        while len(kept) < desk.prompts_per_step and rounds < self.max_rounds:
            asked = self._asked(desk.prompts_per_step, len(kept), len(kept) + len(rejected))
            for group in await desk.sample(desk.cursor.take(asked), desk.group_size, at_round=rounds):
                (kept if min(desk.verdicts(group)) > 0 else rejected).append(group)
            rounds += 1
        share = len(kept) / (len(kept) + len(rejected))
        surplus = kept[desk.prompts_per_step :]
        kept = kept[: desk.prompts_per_step]
        filling: list[ScoredGroup] = []
        if self.fallback == "keep":
            missing = desk.prompts_per_step - len(kept)
            filling, rejected = rejected[:missing], rejected[missing:]
        if self.undo_scale and kept:  # the mean over all that were sampled, whatever the mean is taken over here
            kept = [scaled(group, share * (len(kept) + len(filling)) / len(kept)) for group in kept]
        kept = kept + filling
        return Collected(groups=tuple(kept), rejected=(*rejected, *surplus), rounds=rounds)

    @staticmethod
    def _asked(wanted: int, kept: int, seen: int) -> int:
        if not seen:
            return wanted
        missing = wanted - kept
        return min(wanted, ceil(missing * seen / kept)) if kept else wanted
