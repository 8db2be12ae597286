"""Runs all rewards over all groups and adds their parts up to one score a response."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.errors import RewardError
from covey.rewards.base import Reward, ScoreContext
from covey.rewards.compose import WeightedReward
from covey.rewards.function import FunctionReward
from covey.types import Group, Part, Score, ScoredGroup


async def judge(reward: Reward, group: Group, context: ScoreContext) -> list[Part]:
    """One reward's parts of a group. What it raises is data; a broken contract (RewardError) is not.

    A part that is NaN counts as None. Raises RewardError for a wrong number of parts or an infinite value.
    """
    try:
        parts = await reward.score_group(group, context)
    except RewardError:
        raise
    except Exception as error:  # a user's code, or a library's verifier met by odd text
        text = f"{type(error).__name__}: {error}"
        return [Part(value=None, why=text, error=text) for _ in group.members]
    if len(parts) != len(group.members):
        raise RewardError(f"reward {reward.name!r} returned {len(parts)} parts for {len(group.members)} responses")
    for part in parts:
        if part.value is not None and math.isinf(part.value):
            raise RewardError(f"reward {reward.name!r} returned {part.value}; rewards must be finite")
    return [replace(part, value=None) if part.value is not None and math.isnan(part.value) else part for part in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Weighted sum of rewards, each behind its gate and under its cap.

    ``pass_threshold`` decides correctness where no reward knows it.

    A part that is None for every sibling does not apply to this prompt and is left out for the whole group. A part
    that is None for some siblings makes just their totals None: a sum without it could not be compared.
    """

    rewards: tuple[WeightedReward, ...]
    pass_threshold: float = 1.0

    async def __call__(self, groups: Sequence[Group], context: ScoreContext) -> list[ScoredGroup]:
        """One ScoredGroup a group, in order. Raises RewardError when a reward breaks its contract."""
        return list(await asyncio.gather(*(self._score(group, context) for group in groups)))

    async def _score(self, group: Group, context: ScoreContext) -> ScoredGroup:
        columns = await asyncio.gather(*(judge(item.reward, group, context) for item in self.rewards))
        applies = [any(part.value is not None or part.error for part in parts) for parts in columns]
        rows = [self._total([parts[i] for parts in columns], applies) for i in range(len(group.members))]
        greedy = None
        if group.greedy is not None:  # by itself, so that rewards which compare siblings do not see one more
            alone = replace(group, members=(group.greedy,), greedy=None)
            single = await asyncio.gather(*(judge(item.reward, alone, context) for item in self.rewards))
            greedy = self._total([parts[0] for parts in single], applies)
        weights = {item.reward.name: item.weight for item in self.rewards}
        return ScoredGroup(group=group, scores=tuple(rows), greedy=greedy, weights=weights)

    def drain_logged(self) -> dict[str, float]:
        """Means of what reward functions passed to ``log_metric`` since the last call, by catalogue name."""
        values: dict[str, list[float]] = {}
        for item in self.rewards:
            if isinstance(item.reward, FunctionReward):
                for name, value in item.reward.logged:
                    values.setdefault(f"reward/logged/{name}", []).append(value)
                item.reward.logged.clear()
        return {name: sum(found) / len(found) for name, found in values.items()}

    def _total(self, raw: list[Part], applies: list[bool]) -> Score:
        others = {item.reward.name: part for item, part in zip(self.rewards, raw, strict=True)}
        parts = [item.counted(part, others) for item, part in zip(self.rewards, raw, strict=True)]
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
            steps=next((part.steps for part in parts if part.steps), ()),
        )


def check_failures(scored: Sequence[ScoredGroup], max_failed: float) -> None:
    """Raise RewardError with the commonest reason when more than ``max_failed`` of all responses have an error.

    The same if nothing at all could be judged: such a step teaches nothing, and the next one will not either.
    """
    scores = [score for group in scored for score in group.scores]
    if all(score.total is None and score.error is None for score in scores):
        whys = Counter(f"{name}: {why}" for score in scores for name, why in score.why.items())
        reason = whys.most_common(1)[0][0] if whys else "every reward returned None"
        raise RewardError(f"none of {len(scores)} responses could be judged; {reason}")
    errors = Counter(score.error for score in scores if score.error)
    if errors.total() > max_failed * len(scores):
        reason, count = errors.most_common(1)[0]
        raise RewardError(
            f"{errors.total()} of {len(scores)} responses could not be scored because a reward failed; most often "
            f"({count} times): {reason}. Fix the reward, or raise reward.max_failed (now {max_failed})."
        )
