"""Stage 5: what a reward is. A part is a number, or None when it could not be judged, with a short reason."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

from covey.types import Group, Part, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreContext:
    """Where the run stands when a group is scored: step 0 is the first; evaluation has its own flag."""

    step: int = 0
    steps: int = 0
    evaluating: bool = False


class Reward(Protocol):
    """Judges all siblings of a group. ``covey.testing.reward_contract`` is the suite that every reward passes."""

    @property
    def name(self) -> str:
        """Unique within a run; the part's name in metrics and rollouts."""
        ...

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        """One Part a member, in the order of the members."""
        ...


class ResponseReward:
    """Base of rewards that look at one response at a time: write ``judge`` and nothing else."""

    name: str = ""

    @abstractmethod
    def judge(self, prompt: Prompt, reply: str) -> Part:
        """Judge one response's text."""

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        return [self.judge(group.prompt, member.reply) for member in group.members]
