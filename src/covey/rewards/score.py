"""Runs all rewards over all groups and adds their parts up to one score a response."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from covey.errors import RewardError
from covey.rewards.base import DependentReward, Reward, ScoreContext
from covey.rewards.compose import WeightedReward
from covey.rewards.judges.usage import Usage
from covey.types import Group, Part, Score, ScoredGroup


async def judge(
    reward: Reward | DependentReward,
    group: Group,
    context: ScoreContext,
    verdicts: Sequence[Part] = (),
    deadline: float = math.inf,
) -> list[Part]:
    """One reward's parts of a group. What it raises is data, and so is its being late; a broken contract is not.

    ``verdicts`` are those that a dependent reward asks for. A part that is NaN counts as None. Raises RewardError for
    a wrong number of parts or an infinite value.
    """
    if isinstance(reward, DependentReward):
        working = reward.score_after(group, context, verdicts or [Part(value=None) for _ in group.members])
    else:
        working = reward.score_group(group, context)
    try:
        parts = await within(deadline, working)
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


async def within(deadline: float, working: Coroutine[Any, Any, list[Part]]) -> list[Part]:
    """What it returns. Raises TimeoutError when it is late, and does not wait for it to hear that it was cancelled."""
    if math.isinf(deadline):
        return await working
    task = asyncio.ensure_future(working)
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline)
    finally:
        task.cancel()
    if not done:
        raise TimeoutError(f"no verdict within reward.deadline = {deadline:g} s")
    return task.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Weighted sum of rewards, each behind its gate and under its cap.

    ``pass_threshold`` decides correctness where no reward knows it.

    A part that is None for every sibling does not apply to this prompt and is left out for the whole group. A part
    that is None for some siblings makes just their totals None: a sum without it could not be compared.
    """

    rewards: tuple[WeightedReward, ...]
    pass_threshold: float = 1.0
    deadline: float = math.inf  # seconds that a reward may take over a group, waiting for its turn included
    seconds: dict[str, list[float]] = field(default_factory=dict)  # of each reward's calls since they were drained

    async def __call__(self, groups: Sequence[Group], context: ScoreContext) -> list[ScoredGroup]:
        """One ScoredGroup a group, in order. Raises RewardError when a reward breaks its contract."""
        return list(await asyncio.gather(*(self.score(group, context) for group in groups)))

    async def score(self, group: Group, context: ScoreContext) -> ScoredGroup:
        """One group. Raises RewardError when a reward breaks its contract."""
        columns = await self._columns(group, context)
        applies = [any(part.value is not None or part.error for part in parts) for parts in columns]
        rows = [self._total([parts[i] for parts in columns], applies) for i in range(len(group.members))]
        greedy = None
        if group.greedy is not None:  # by itself, so that rewards which compare siblings do not see one more
            single = await self._columns(replace(group, members=(group.greedy,), greedy=None), context)
            greedy = self._total([parts[0] for parts in single], applies)
        weights = {item.reward.name: item.weight for item in self.rewards}
        return ScoredGroup(group=group, scores=tuple(rows), greedy=greedy, weights=weights)

    async def _columns(self, group: Group, context: ScoreContext) -> list[list[Part]]:
        """Each reward's parts; those that depend on another's come after it."""
        found: dict[str, list[Part]] = {}

        async def work(reward: Reward | DependentReward, verdicts: Sequence[Part] = ()) -> None:
            began = time.perf_counter()
            found[reward.name] = await judge(reward, group, context, verdicts, self.deadline)
            self.seconds.setdefault(reward.name, []).append(time.perf_counter() - began)

        rewards = [item.reward for item in self.rewards]
        dependent = [reward for reward in rewards if isinstance(reward, DependentReward)]
        await asyncio.gather(*(work(reward) for reward in rewards if not isinstance(reward, DependentReward)))
        await asyncio.gather(*(work(reward, found[reward.after]) for reward in dependent))
        return [found[reward.name] for reward in rewards]

    def confinement(self) -> dict[str, str]:
        """The sandbox level of each reward that runs programs. Raises ConfigError where none holds that it accepts."""
        levels = {item.reward.name: getattr(item.reward, "confinement", None) for item in self.rewards}
        return {name: level for name, level in levels.items() if level is not None}

    def drain(self) -> dict[str, float]:
        """By catalogue name, since the last call: the mean of what rewards logged, and the mean time of a call.

        What judges have been asked is counted from the beginning.
        """
        values = {f"seconds/reward/{name}": list(found) for name, found in self.seconds.items()}
        self.seconds.clear()
        for item in self.rewards:
            logged: list[tuple[str, float]] = getattr(item.reward, "logged", [])
            for name, value in logged:
                values.setdefault(f"reward/logged/{name}", []).append(value)
            logged.clear()
        means = {name: sum(found) / len(found) for name, found in values.items()}
        for item in self.rewards:
            usage = getattr(item.reward, "usage", None)
            if isinstance(usage, Usage):
                tokens = usage.prompt_tokens + usage.completion_tokens
                counts = {"calls": usage.calls, "kept": usage.cache_hits, "tokens": tokens, "cost": item.reward.cost}  # type: ignore[union-attr]
                means |= {f"judge/{name}/{item.reward.name}": float(count) for name, count in counts.items()}
        return means

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
            states={item.reward.name: part.state for item, part in named},
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
