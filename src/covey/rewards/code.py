"""Programs that pass their tests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

from covey.errors import ConfigError, RewardError
from covey.rewards.base import ScoreContext
from covey.rewards.programs.cases import cases_of
from covey.rewards.programs.grade import Grader, UnjudgedError
from covey.rewards.programs.source import program_in
from covey.sandbox.check import best_level
from covey.sandbox.languages import language
from covey.sandbox.limits import Limits
from covey.sandbox.outcome import SandboxError
from covey.sandbox.remote import RemoteSandbox
from covey.sandbox.sandbox import Level, Sandbox
from covey.types import Group, Part, Prompt

best = cache(best_level)
"""Tried once a process."""


@cache
def shared_sandbox(level: Level, workers: int, modules: tuple[str, ...]) -> Sandbox:
    """Of all rewards with the same settings."""
    return Sandbox(level, workers, modules=modules)


@dataclass(frozen=True, kw_only=True)
class CodeTests:
    """1 if the program in the reply passes all tests of its prompt, else 0; with ``partial`` the share that it passes.

    The program is the reply's last code block. Tests come from the row's columns, in the shapes of
    :func:`covey.rewards.programs.cases.cases_of`. Programs run confined: expected values are never where they could see
    them, and nothing that they say decides. ``seconds`` and ``memory_mb`` are of one run. ``minimum`` is the
    weakest confinement that is accepted ("L1", "L2"; "L3" lets programs read files). ``modules`` are packages that
    programs may import besides the standard library. A prompt without tests cannot be judged (None), nor a
    program over which the sandbox itself failed twice (None, and an error that is counted). ``remote`` is the address
    of a service that runs programs in place of the sandbox here (:mod:`covey.sandbox.remote`).
    """

    language: str = "python"
    partial: bool = False
    seconds: float = 6.0
    memory_mb: int = 1024
    tolerance: float = 1e-6
    minimum: Level = "L2"
    modules: tuple[str, ...] = ()
    workers: int = 2
    name: str = "code"
    kind: Literal["tests", "builds"] = "tests"
    attempts: int = field(default=2)
    remote: str = ""

    def __post_init__(self) -> None:
        if self.remote and (self.language != "python" or not self.remote.startswith(("http://", "https://"))):
            raise ValueError(f"remote: the http address of a service, and Python, expected, got {self.remote!r}")
        if self.seconds <= 0 or self.memory_mb < 64 or self.workers < 1 or self.attempts < 1:
            raise ValueError("seconds > 0, memory_mb >= 64, workers >= 1 and attempts >= 1 expected")

    @cached_property
    def grader(self) -> Grader:
        """Raises ConfigError where no confinement of ``minimum`` holds, or the language's tools are missing."""
        table = None if self.language == "python" else language(self.language)
        limits = Limits(cpu=self.seconds, wall=1.5 * self.seconds, memory=self.memory_mb << 20)
        return Grader(self._remote() if self.remote else self._local(), limits, table, self.tolerance)

    def _local(self) -> Sandbox:
        return shared_sandbox(best(self.minimum), self.workers, self.modules)

    def _remote(self) -> RemoteSandbox:
        try:
            return RemoteSandbox(self.remote, self._local())
        except ConfigError:  # none holds here, and only assert statements need one
            return RemoteSandbox(self.remote)

    @property
    def confinement(self) -> str:
        """The level at which programs run here. Raises ConfigError as :attr:`grader` does."""
        return self.grader.sandbox.level

    def unfit(self, prompt: Prompt) -> str | None:
        """What is wrong with the prompt's tests, if it has any."""
        try:
            cases_of(prompt.columns)
        except RewardError as error:
            return str(error)
        return None

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        judged = (asyncio.to_thread(self.part, group.prompt, member.reply) for member in group.members)
        return list(await asyncio.gather(*judged))

    def part(self, prompt: Prompt, reply: str) -> Part:
        """Of one reply."""
        cases = cases_of(prompt.columns) if self.kind == "tests" else None
        if cases is None and self.kind == "tests":
            return Part(value=None, why="the prompt has no tests")
        source = program_in(reply, self.language)
        if source is None:
            return Part(value=0.0, why=f"no closed code block in {self.language}", correct=False)
        for attempt in range(self.attempts):
            try:
                if cases is None:
                    outcome = self.grader.builds(source)
                    right = outcome.status == "ended"
                    return Part(value=float(right), why="" if right else outcome.last_error)
                grade = self.grader(source, cases, all_of_them=self.partial)
            except UnjudgedError as error:
                return Part(value=None, why=str(error))
            except SandboxError as error:
                if attempt + 1 == self.attempts:
                    return Part(value=None, why=str(error), error=f"sandbox: {error}")
            else:
                right = grade.passed == grade.total
                value = grade.share if self.partial else float(right)
                return Part(
                    value=value, why=f"{grade.passed} of {grade.total} tests. {grade.why}".strip(), correct=right
                )
        raise AssertionError("unreachable")
