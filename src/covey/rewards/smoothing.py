"""The mean of several scores of the same response, for rewards that vary from one time to the next."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.rewards.base import Choosy, DependentReward, Reward, ScoreContext
from covey.rewards.score import judge
from covey.types import Group, Part, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanOf:
    """Scores a group ``times`` times, one time after another; the value is the mean of the times it could be judged.

    None where that was fewer than half of them. ``correct`` is what most times say, None for as many of each. Step
    rewards are left out. The name is that of the reward, if none is given. What the reward raises counts as not judged,
    for that time. A judge that keeps its answers says the same each time: leave its ``cache`` empty and its
    ``temperature`` above 0.
    """

    reward: Reward
    times: int
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.reward, DependentReward):
            raise ValueError(f"a reward that judges by itself expected, got {self.reward.name!r}, which depends on one")
        if self.times < 1:
            raise ValueError(f"times of 1 or more expected, got {self.times}")
        if not self.name:
            object.__setattr__(self, "name", self.reward.name)

    @property
    def logged(self) -> list[tuple[str, float]]:
        """What the reward logged, if it does."""
        return getattr(self.reward, "logged", [])

    def unfit(self, prompt: Prompt) -> str | None:
        """What the reward itself says."""
        return self.reward.unfit(prompt) if isinstance(self.reward, Choosy) else None

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        rounds = [await judge(self.reward, group, context) for _ in range(self.times)]
        return [mean_of(parts) for parts in zip(*rounds, strict=True)]


def mean_of(parts: Sequence[Part]) -> Part:
    """One part of several about the same response."""
    values = [part.value for part in parts if part.value is not None]
    if 2 * len(values) < len(parts):
        part = next((part for part in parts if part.error), next(part for part in parts if part.value is None))
        return replace(part, value=None, correct=None, steps=(), why=f"{_judged(values, parts)}: {part.why}")
    verdicts = [part.correct for part in parts if part.value is not None and part.correct is not None]
    right = sum(verdicts)
    correct = None if 2 * right == len(verdicts) else 2 * right > len(verdicts)
    spread = f"{min(values):g} to {max(values):g}, standard deviation {statistics.pstdev(values):.3g}"
    return Part(value=statistics.fmean(values), why=f"{_judged(values, parts)}, {spread}", correct=correct)


def _judged(values: Sequence[float], parts: Sequence[Part]) -> str:
    return f"judged {len(values)} of {len(parts)} times"
