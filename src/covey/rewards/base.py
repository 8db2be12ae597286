"""Stage 5: what a reward is. A part is a number, or None when it could not be judged, with a short reason."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol, runtime_checkable

from covey.rewards.serial import Serial
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


@runtime_checkable
class DependentReward(Protocol):
    """Judges with another part's verdicts at hand: a length that counts by right and wrong, for one."""

    @property
    def name(self) -> str:
        """As of :class:`Reward`."""
        ...

    @property
    def after(self) -> str:
        """The part whose verdicts it asks for; it must not be a dependent one itself."""
        ...

    async def score_after(self, group: Group, context: ScoreContext, verdicts: Sequence[Part], /) -> list[Part]:
        """One Part a member, in the order of the members, as are ``verdicts``."""
        ...


@runtime_checkable
class Choosy(Protocol):
    """A reward that can tell, before a run, which prompts it will never be able to judge."""

    def unfit(self, prompt: Prompt, /) -> str | None:
        """Why this prompt cannot be judged although it is meant for this reward; None if it can, or is not."""
        ...


class ResponseReward:
    """Base of rewards that look at one response at a time: write ``judge`` and nothing else.

    All rewards of one class run on a thread of their own, one group after another, each ``deadline`` seconds long at
    most.
    """

    name: str = ""
    deadline: ClassVar[float] = 60.0

    @abstractmethod
    def judge(self, prompt: Prompt, reply: str) -> Part:
        """Judge one response's text."""

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        def judged() -> list[Part]:
            return [self.judge(group.prompt, member.reply) for member in group.members]

        parts: list[Part] = await serial_of(type(self)).run(judged, self.deadline)
        return parts


@cache
def serial_of(kind: type) -> Serial:
    """The thread of all rewards of this class."""
    return Serial()
