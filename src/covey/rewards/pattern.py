"""Format: the response matches a regular expression."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from covey.rewards.base import ScoreContext
from covey.rewards.interpreters import CrashError, Interpreters
from covey.types import Group, Part, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """1 if ``pattern`` matches the whole reply, or with ``where = "search"`` any part of it, else 0.

    The syntax is that of Python's ``re``, flags inside the pattern: ``(?s)`` lets a dot match line ends. The reply is
    taken as it is, outer blanks included. Some patterns take exponential time on some replies, so they are matched in
    ``workers`` interpreters that are stopped after ``deadline`` seconds; the reply then has 0.

    Farmed by the cheapest text that matches; with "search" by a match with anything around it.
    """

    pattern: str
    where: Literal["whole", "search"] = "whole"
    deadline: float = 1.0
    workers: int = 2
    name: str = "regex"

    def __post_init__(self) -> None:
        if self.where not in ("whole", "search"):
            raise ValueError(f'where is "whole" or "search", got {self.where!r}')
        if self.deadline <= 0 or self.workers < 1:
            raise ValueError(f"deadline > 0 seconds and workers >= 1 expected, got {self.deadline} and {self.workers}")
        try:
            re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"pattern {self.pattern!r} is no regular expression: {error}") from error

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        judged = (asyncio.to_thread(self.part, group.prompt, member.reply) for member in group.members)
        return list(await asyncio.gather(*judged))

    def part(self, prompt: Prompt, reply: str) -> Part:
        """Of one reply."""
        question = {"pattern": self.pattern, "where": self.where, "reply": reply}
        try:
            found = interpreters(self.workers, self.deadline).ask(question)
        except TimeoutError:
            return Part(value=0.0, why=f"timeout: the pattern took more than {self.deadline:g} s")
        except CrashError as error:
            return Part(value=None, why=f"the pattern could not be matched: {error}", error=f"regex: {error}")
        return Part(value=float(found), why="" if found else "no match")


@cache
def interpreters(size: int, deadline: float) -> Interpreters:
    """Shared by all rewards with the same limits."""
    return Interpreters("covey.rewards.pattern:matches", size=size, deadline=deadline)


def matches(question: Mapping[str, str]) -> bool:
    """What an interpreter does with a question."""
    compiled = re.compile(question["pattern"])
    match = compiled.fullmatch if question["where"] == "whole" else compiled.search
    return match(question["reply"]) is not None
