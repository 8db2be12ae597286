"""Calls of tools: well-formed, of tools that there are, with arguments that these take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from covey.errors import ConfigError
from covey.rewards.base import ScoreContext
from covey.rewards.schema import checked, judge_values
from covey.rewards.strict_json import canonical, parse
from covey.types import Group, Part, Prompt

OPEN, CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalls:
    """1 if the reply has ``at_least`` so many tool calls and all of them are valid, else 0.

    A call is ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` with these two keys alone, in strict JSON
    (``covey.rewards.strict_json``). It names a tool of the prompt's column ``tools``, a list of functions as OpenAI
    describes them (or that list as JSON text), and its arguments are valid under the tool's ``parameters``. What stands
    outside of calls is not looked at.

    If the prompt has the column ``expected_calls``, of names and arguments, the calls must also equal these, in this
    order if ``order`` is set, and not be fewer or more; only then is the reply right or wrong, and ``at_least`` does
    not count. A prompt without tools, or with columns that cannot be read, cannot be judged (None). ``deadline`` is in
    seconds a reply, kept by ``workers`` interpreters; longer is 0. Needs the extra ``schema``.

    Without expected calls it is farmed by the easiest tool with made-up arguments.
    """

    at_least: int = 1
    order: bool = True
    tools: str = "tools"
    expected: str = "expected_calls"
    deadline: float = 3.0
    workers: int = 2
    name: str = "tool_calls"

    def __post_init__(self) -> None:
        if self.at_least < 0 or self.deadline <= 0 or self.workers < 1:
            raise ValueError(
                "at_least >= 0 calls, deadline > 0 seconds and workers >= 1 expected, got "
                f"{self.at_least}, {self.deadline} and {self.workers}"
            )
        checked({})  # finds out before the run if the library is missing

    def unfit(self, prompt: Prompt) -> str | None:
        """Why the prompt's tools or expected calls cannot be read, if it has tools."""
        try:
            if self._column(prompt, self.tools) is not None:
                self._read(prompt)
        except ValueError as error:
            return str(error)
        return None

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        try:
            schemas, expected = await asyncio.to_thread(self._read, group.prompt)
        except ValueError as error:
            return [Part(value=None, why=str(error)) for _ in group.members]
        judged = (asyncio.to_thread(self._part, schemas, expected, member.reply) for member in group.members)
        return list(await asyncio.gather(*judged))

    def _part(self, schemas: Mapping[str, str], expected: list[str] | None, reply: str) -> Part:
        wrong = None if expected is None else False
        try:
            calls = calls_in(reply)
            checks = [(_schema_of(call["name"], schemas), call["arguments"]) for call in calls]
        except ValueError as error:
            return Part(value=0.0, why=str(error), correct=wrong)
        if expected is None and len(calls) < self.at_least:
            return Part(value=0.0, why=f"{len(calls)} calls, {self.at_least} expected")
        part = judge_values(checks, self.workers, self.deadline) if checks else Part(value=1.0)
        if expected is None or part.value is None:
            return part
        given = [canonical(call) for call in calls]
        same = given == expected if self.order else Counter(given) == Counter(expected)
        why = part.why or ("" if same else f"{len(calls)} calls that are not the {len(expected)} expected")
        return Part(value=float(same and part.value == 1.0), why=why, correct=same and part.value == 1.0)

    def _read(self, prompt: Prompt) -> tuple[dict[str, str], list[str] | None]:
        """Schemas by tool, and the expected calls. Raises ValueError where they cannot be read."""
        listed = self._column(prompt, self.tools)
        if not isinstance(listed, list | tuple) or not listed:
            raise ValueError(f"the prompt has no list of tools in column {self.tools!r}")
        schemas: dict[str, str] = {}
        for tool in listed:
            function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
            if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
                raise ValueError(f"column {self.tools!r} has a tool without a name: {str(tool)[:60]!r}")
            try:
                schemas[function["name"]] = checked(function.get("parameters") or {})
            except ConfigError as error:
                raise ValueError(f"tool {function['name']!r}: {error}") from error
        calls = self._column(prompt, self.expected)
        if calls is None:
            return schemas, None
        if not isinstance(calls, list | tuple):
            raise ValueError(f"column {self.expected!r} must be a list of calls, got a {type(calls).__name__}")
        return schemas, [canonical(as_call(call)) for call in calls]

    def _column(self, prompt: Prompt, column: str) -> Any:
        value = prompt.columns.get(column)
        return parse(value) if isinstance(value, str) else value


def calls_in(reply: str) -> list[dict[str, Any]]:
    """All calls of a reply. Raises ValueError for one that is not closed or is no call."""
    before, *rest = reply.split(OPEN)
    if CLOSE in before:
        raise ValueError(f"{CLOSE} without {OPEN}")
    calls = []
    for piece in rest:
        text, *after = piece.split(CLOSE)
        if len(after) != 1:
            raise ValueError(f"{OPEN} is closed {len(after)} times")
        try:
            calls.append(as_call(parse(text)))
        except ValueError as error:
            raise ValueError(f"call {len(calls) + 1}: {error}") from error
    return calls


def as_call(value: Any) -> dict[str, Any]:
    """The value as a name and arguments. Raises ValueError for anything else."""
    if not isinstance(value, Mapping) or set(value) != {"name", "arguments"}:
        raise ValueError("an object with the keys name and arguments alone is expected")
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise ValueError("name must be a text and arguments an object")
    return {"name": name, "arguments": dict(arguments)}


def _schema_of(name: str, schemas: Mapping[str, str]) -> str:
    if name not in schemas:
        raise ValueError(f"there is no tool {name[:40]!r}")
    return schemas[name]
