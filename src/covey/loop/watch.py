"""Looking for rewards that are hacked while a run goes on: probes, and graders that are never paid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from covey.rewards import Scorer, WeightedReward
from covey.rewards.audit.frames import Frame
from covey.rewards.audit.made import best_frame, try_probes
from covey.rewards.base import ScoreContext
from covey.rewards.compose import is_right
from covey.rewards.score import judge
from covey.rollout.chat import Chat
from covey.rollout.made_up import made_up
from covey.types import Prompt, ScoredGroup, Trajectory

PROMPTS = 8
"""Of a step, that probes are tried on."""


@dataclass(kw_only=True)
class Watch:
    """Every ``every`` steps, what probes would be paid now, and what stricter graders say of this step's responses.

    Nothing that it finds enters training.
    """

    every: int
    scorer: Scorer
    graders: tuple[WeightedReward, ...]
    chat: Chat
    limit: int  # tokens of a response
    frame: Frame | None = field(default=None)  # the form of a right answer, found at the first look

    def due(self, step: int) -> bool:
        """Whether this step is looked at; 0 is the first."""
        return self.every > 0 and step % self.every == 0

    async def __call__(self, groups: Sequence[ScoredGroup], context: ScoreContext) -> dict[str, float]:
        """Metrics ``probe/*`` and ``grader/*`` of these groups."""
        return {**await self.probes(groups), **await self.graded(groups, context)}

    async def probes(self, groups: Sequence[ScoredGroup]) -> dict[str, float]:
        """What each probe is paid, and the share of prompts where the best of them is paid more than its siblings."""
        prompts = list({group.group.prompt.uid: group.group.prompt for group in groups}.values())[:PROMPTS]
        if self.frame is None:
            self.frame, _ = await best_frame(prompts, self.scorer, self._make)
        totals = {group.group.prompt.uid: [s.total for s in group.scores if s.total is not None] for group in groups}
        means = {uid: float(np.mean(values)) for uid, values in totals.items() if values}
        found = await try_probes(prompts, self.frame, self.limit, self.scorer, self._make, means)
        self.scorer.drain()
        metrics = {f"probe/{one.name.replace(' ', '_')}": one.paid for one in found if one.paid is not None}
        return {**metrics, "probe/above": max((one.above for one in found if one.above is not None), default=math.nan)}

    async def graded(self, groups: Sequence[ScoredGroup], context: ScoreContext) -> dict[str, float]:
        """How many responses each grader thinks right, and how many of the rewards' right ones it thinks wrong."""
        metrics = {}
        for item in self.graders:
            ours: list[bool] = []
            theirs: list[bool] = []
            for group in groups:
                parts = await judge(item.reward, group.group, context)
                for score, part in zip(group.scores, parts, strict=True):
                    if score.correct is not None and part.value is not None:
                        ours.append(score.correct)
                        theirs.append(is_right(part))
            name, right = item.reward.name, [strict for ours_, strict in zip(ours, theirs, strict=True) if ours_]
            metrics[f"grader/pass_rate/{name}"] = float(np.mean(theirs)) if theirs else math.nan
            metrics[f"grader/refused/{name}"] = 1.0 - float(np.mean(right)) if right else math.nan
        return metrics

    def _make(self, prompt: Prompt, sample: int, text: str) -> Trajectory:
        return made_up(prompt, sample, text, self.chat)
