"""Runs all rewards over all groups and adds their parts up to one score a response."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from covey.errors import RewardError
from covey.rewards.base import Reward, ScoreContext
from covey.rewards.function import FunctionReward
from covey.types import Group, Part, Score, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedReward:
    """One reward with its weight in the total."""

    reward: Reward
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Weighted sum of rewards; ``pass_threshold`` decides correctness where no reward knows it.

    A part that is None for every sibling does not apply to this prompt and is left out for the whole group. A part
    that is None for some siblings makes just their totals None: a sum without it could not be compared.
    """

    rewards: tuple[WeightedReward, ...]
    pass_threshold: float = 1.0

    async def __call__(self, groups: Sequence[Group], context: ScoreContext) -> list[ScoredGroup]:
        """One ScoredGroup a group, in order. Raises RewardError when a reward breaks its contract."""
        return list(await asyncio.gather(*(self._score(group, context) for group in groups)))

    async def _score(self, group: Group, context: ScoreContext) -> ScoredGroup:
        columns = await asyncio.gather(*(item.reward.score_group(group, context) for item in self.rewards))
        for item, parts in zip(self.rewards, columns, strict=True):
            if len(parts) != len(group.members):
                raise RewardError(
                    f"reward {item.reward.name!r} returned {len(parts)} parts for {len(group.members)} responses"
                )
        applies = [any(part.value is not None or part.error for part in parts) for parts in columns]
        rows = [self._total([parts[i] for parts in columns], applies) for i in range(len(group.members))]
        return ScoredGroup(group=group, scores=tuple(rows))

    def drain_logged(self) -> dict[str, float]:
        """Means of what reward functions passed to ``log_metric`` since the last call, by catalogue name."""
        values: dict[str, list[float]] = {}
        for item in self.rewards:
            if isinstance(item.reward, FunctionReward):
                for name, value in item.reward.logged:
                    values.setdefault(f"reward/logged/{name}", []).append(value)
                item.reward.logged.clear()
        return {name: sum(found) / len(found) for name, found in values.items()}

    def _total(self, parts: list[Part], applies: list[bool]) -> Score:
        counted = [(item, part) for item, part, used in zip(self.rewards, parts, applies, strict=True) if used]
        missing = not counted or any(part.value is None for _, part in counted)
        total = None if missing else sum(item.weight * float(part.value or 0.0) for item, part in counted)
        verdicts = [part.correct for part in parts if part.correct is not None]
        correct = all(verdicts) if verdicts else (None if total is None else total >= self.pass_threshold)
        errors = [f"{item.reward.name}: {part.error}" for item, part in counted if part.error]
        named = list(zip(self.rewards, parts, strict=True))
        return Score(
            total=total,
            parts={item.reward.name: part.value for item, part in named},
            why={item.reward.name: part.why for item, part in named if part.why},
            correct=correct,
            error="; ".join(errors) or None,
        )


def check_failures(scored: Sequence[ScoredGroup], max_failed: float) -> None:
    """Raise RewardError with the commonest reason when more than ``max_failed`` of all responses have an error."""
    scores = [score for group in scored for score in group.scores]
    errors = Counter(score.error for score in scores if score.error)
    if errors.total() > max_failed * len(scores):
        reason, count = errors.most_common(1)[0]
        raise RewardError(
            f"{errors.total()} of {len(scores)} responses could not be scored because a reward failed; most often "
            f"({count} times): {reason}. Fix the reward, or raise reward.max_failed (now {max_failed})."
        )
