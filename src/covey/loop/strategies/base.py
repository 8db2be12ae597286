"""How a step gets its groups: what to sample, how often, and what to train on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from covey.advantages.base import outcome_of
from covey.advantages.shape import Shaping
from covey.controllers import PassRates
from covey.engines.base import Engine
from covey.prompts.cursor import Cursor
from covey.rewards.base import ScoreContext
from covey.rewards.score import Scorer
from covey.rollout.chat import Chat
from covey.rollout.group import RolloutPlan, extend, rollout
from covey.types import Group, Prompt, Sampling, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The groups of a step. ``rejected`` were sampled and scored too, and are not trained on."""

    groups: tuple[ScoredGroup, ...]
    rejected: tuple[ScoredGroup, ...] = ()
    rounds: int = 1
    equal_prompts: bool = False  # group sizes differ, and each prompt is to count once
    unconditional: int | None = None  # members drawn whatever the others were; None: all. Pass rates are of these

    @property
    def everything(self) -> tuple[ScoredGroup, ...]:
        """All groups that were sampled."""
        return (*self.groups, *self.rejected)


@dataclass(kw_only=True)
class Desk:
    """What a strategy works with in one step: it takes prompts, and samples and scores groups."""

    cursor: Cursor
    engine: Engine
    chat: Chat
    scorer: Scorer
    sampling: Sampling
    prompts_per_step: int
    group_size: int
    seed: tuple[int | str, ...]
    context: ScoreContext
    rates: PassRates  # of earlier steps only
    plan: RolloutPlan = field(default_factory=RolloutPlan)
    shaping: Shaping = field(default_factory=Shaping)
    stage: Callable[[str], None] = lambda name: None  # tells a person what is going on
    seconds: dict[str, float] = field(default_factory=lambda: {"sample": 0.0, "score": 0.0})

    async def sample(
        self, prompts: Sequence[Prompt], sizes: int | Sequence[int], at_round: int = 0
    ) -> list[ScoredGroup]:
        """Sample and score a group for every prompt. Later rounds of a step have seeds of their own.

        Groups that ended early are judged while the others are sampled; the time of scoring is what comes after that.
        """
        seed = (*self.seed, "round", at_round) if at_round else self.seed
        began = time.perf_counter()
        self.stage("sampling")
        judged: dict[int, asyncio.Task[ScoredGroup]] = {}

        def ended(place: int, group: Group) -> None:
            judged[place] = asyncio.ensure_future(self.scorer.score(group, self.context))

        try:
            await rollout(prompts, self.engine, self.chat, self.sampling, sizes, seed, self.plan, ended)
            self.seconds["sample"] += time.perf_counter() - began
            began = time.perf_counter()
            self.stage("scoring")
            scored = await asyncio.gather(*(judged[place] for place in range(len(prompts))))
            self.seconds["score"] += time.perf_counter() - began
        finally:
            for task in judged.values():
                task.cancel()
        return scored

    def verdicts(self, group: ScoredGroup) -> tuple[int, int]:
        """How many responses that credit will be computed from are right and wrong, by raw correctness."""
        (shaped,) = self.shaping([group])
        counted = ~np.isnan(outcome_of(shaped))
        known = [s.correct for s, counts in zip(group.scores, counted, strict=True) if counts and s.correct is not None]
        return sum(known), len(known) - sum(known)

    async def extend(self, scored: Sequence[ScoredGroup], more: Sequence[int]) -> list[ScoredGroup]:
        """Add ``more[i]`` responses to group i. Extended groups are scored anew: rewards may compare siblings."""
        began = time.perf_counter()
        self.stage("sampling")
        groups = [group.group for group in scored]
        larger = await extend(groups, self.engine, self.chat, self.sampling, more, self.seed, self.plan)
        self.seconds["sample"] += time.perf_counter() - began
        fresh = iter(await self._score([group for group, extra in zip(larger, more, strict=True) if extra]))
        return [next(fresh) if extra else old for old, extra in zip(scored, more, strict=True)]

    async def _score(self, groups: Sequence) -> list[ScoredGroup]:
        began = time.perf_counter()
        self.stage("scoring")
        scored = await self.scorer(groups, self.context)
        self.seconds["score"] += time.perf_counter() - began
        return scored


class Strategy(Protocol):
    """Collects the groups of one step."""

    async def __call__(self, desk: Desk, /) -> Collected: ...


def verdicts(group: ScoredGroup, members: int | None = None) -> tuple[int, int]:
    """How many judged responses are right and wrong, by raw correctness; of the first ``members`` if given."""
    known = [score.correct for score in group.scores[:members] if score.correct is not None and score.total is not None]
    return sum(known), len(known) - sum(known)


def scaled(group: ScoredGroup, factor: float) -> ScoredGroup:
    """The same group with its advantages to be multiplied."""
    return replace(group, group=replace(group.group, scale=group.group.scale * factor))
