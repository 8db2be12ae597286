"""The right answer to a problem in mathematics, however it is written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from covey.rewards.base import ScoreContext
from covey.rewards.extract import check_places
from covey.rewards.maths.compare import Options
from covey.rewards.maths.judge import Judge
from covey.types import Group, Part, Prompt


@dataclass(frozen=True, kw_only=True)
class MathAnswer:
    """1 if the reply's answer says what the prompt's does, else 0.

    The answer stands at the first of ``places`` that the reply has (``covey.rewards.extract``), the last one there.
    All of it must be understood; no part is ever taken for the whole. Numbers are compared exactly, formulas at several
    points to at least 40 digits. For ``units``, ``percent``, ``order_matters`` and ``rel_tol`` see
    :class:`covey.rewards.maths.compare.Options`. ``deadline`` is in seconds an answer, kept by ``workers``
    interpreters.
    An expected answer that cannot be read, such as a sentence, cannot be judged (None).
    """

    places: tuple[str, ...] = ("boxed", "tag:answer", "hashes", "phrase")
    units: Literal["ignore", "require"] = "ignore"
    percent: Literal["loose", "strict"] = "loose"
    order_matters: bool = False
    rel_tol: float = 0.0
    deadline: float = 3.0
    workers: int = 2
    name: str = "math"

    def __post_init__(self) -> None:
        check_places(self.places)
        if not 0 <= self.rel_tol < 1 or self.deadline <= 0 or self.workers < 1:
            raise ValueError(
                "0 <= rel_tol < 1, deadline > 0 seconds and workers >= 1 expected, got "
                f"{self.rel_tol}, {self.deadline} and {self.workers}"
            )

    @cached_property
    def judge(self) -> Judge:
        """What compares."""
        options = Options(
            units=self.units, percent=self.percent, order_matters=self.order_matters, rel_tol=self.rel_tol
        )
        return Judge(options, self.places, self.deadline, self.workers)

    def unfit(self, prompt: Prompt) -> str | None:
        """Why the expected answer cannot be compared with, if there is one."""
        return None if prompt.answer is None else self.judge.problem(prompt.answer) or None

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        judged = (asyncio.to_thread(self.part, group.prompt, member.reply) for member in group.members)
        return list(await asyncio.gather(*judged))

    def part(self, prompt: Prompt, reply: str) -> Part:
        """Of one reply."""
        if prompt.answer is None:
            return Part(value=None, why="there is no answer to compare with")
        verdict = self.judge(prompt.answer, reply)
        if verdict.kind == "gold_unparsed":
            return Part(value=None, why=verdict.why)
        right = verdict.kind == "correct"
        why = verdict.why if verdict.kind in ("correct", "wrong") else f"{verdict.kind}: {verdict.why}"
        return Part(value=float(right), why=why, correct=right)
