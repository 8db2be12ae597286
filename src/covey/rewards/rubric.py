"""Rubrics in the style of ``verifiers``: functions of one response, or of a whole group, each with its weight."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from covey.rewards.base import ScoreContext
from covey.rewards.calling import Function, accepted, called, number, numbers
from covey.rewards.serial import Serial
from covey.types import Group, Part, Prompt

OF_A_GROUP = {"states", "prompts", "completions", "answers", "tasks", "infos"}
"""A function that takes one of these is called once for all siblings, with lists."""


def is_rubric(target: Any) -> bool:
    """Whether it has functions and weights, or holds rubrics that have."""
    return all(hasattr(target, name) for name in ("funcs", "weights")) or hasattr(target, "rubrics")


def takes_one_response(function: Function) -> bool:
    """Whether a function's arguments are those of a rubric's function, not of TRL's."""
    names = set(inspect.signature(function).parameters)
    return bool(names & {"completion", "state"}) and not names & OF_A_GROUP


class RubricReward:
    """The weighted sum of a rubric's functions; what each gave stands in ``why`` and in ``reward/logged/FUNCTION``.

    ``f(prompt, completion, answer, task, info, state, parser, <other columns>)`` returns a number, plural names get
    lists and return a list. Only the arguments that a function takes are passed. ``prompt`` and ``completion`` are
    messages, or strings for a plain prompt; ``state`` is a dict that a rubric's functions share for one response, in
    their order. A function that raises, or says None, leaves its response without a value: a missing number is not 0.
    Calls come one after another, ``async`` ones on the event loop, each at most ``deadline`` seconds long.
    """

    def __init__(
        self,
        functions: Sequence[Function],
        weights: Sequence[float],
        objects: Mapping[str, Any] | None = None,
        name: str = "rubric",
        deadline: float = 60.0,
    ) -> None:
        if not functions or len(functions) != len(weights) or deadline <= 0:
            raise ValueError(
                "at least one function, one weight each and a deadline above 0 seconds expected, got "
                f"{len(functions)} functions, {len(weights)} weights and {deadline}"
            )
        self.functions, self.weights = tuple(functions), tuple(float(weight) for weight in weights)
        self.objects, self.name, self.deadline = dict(objects or {}), name, deadline
        self.logged: list[tuple[str, float]] = []
        self._serial = Serial()

    @classmethod
    def of(cls, rubric: Any, name: str = "rubric", deadline: float = 60.0) -> RubricReward:
        """Take a rubric, or a group of rubrics, as it is."""
        rubrics = list(getattr(rubric, "rubrics", [])) or [rubric]
        functions = [function for one in rubrics for function in one.funcs]
        weights = [weight for one in rubrics for weight in one.weights]
        objects = {key: value for one in rubrics for key, value in getattr(one, "class_objects", {}).items()}
        return cls(functions, weights, objects, name, deadline)

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        states = [_state(group.prompt, member.reply) for member in group.members]
        columns = [await self._column(function, group.prompt, states) for function in self.functions]
        names = [getattr(function, "__name__", type(function).__name__) for function in self.functions]
        parts = []
        for values in zip(*columns, strict=True):
            why = ", ".join(f"{name} {_shown(value)}" for name, value in zip(names, values, strict=True))
            known = [value for value in values if value is not None]
            if len(known) < len(values):
                parts.append(Part(value=None, why=why))
            else:
                total = sum(weight * value for weight, value in zip(self.weights, known, strict=True))
                parts.append(Part(value=float(total), why=why))
        if not context.evaluating:
            pairs = zip(names, columns, strict=True)
            self.logged += [(name, value) for name, column in pairs for value in column if value is not None]
        return parts

    async def _column(self, function: Function, prompt: Prompt, states: list[dict[str, Any]]) -> list[float | None]:
        name = f"{self.name}: {getattr(function, '__name__', type(function).__name__)}"
        if set(inspect.signature(function).parameters) & OF_A_GROUP:
            lists = {f"{key}s": [state[key] for state in states] for key in ("prompt", "completion", "answer", "task")}
            given = {**lists, "infos": [state["info"] for state in states], "states": states, **self.objects}
            values = await called(self._serial, function, accepted(function, given), self.deadline)
            return numbers(values, len(states), name)
        found = []
        for state in states:
            given = {**prompt.columns, **state, "state": state, **self.objects}
            found.append(number(await called(self._serial, function, accepted(function, given), self.deadline), name))
        return found


def _state(prompt: Prompt, reply: str) -> dict[str, Any]:
    messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
    return {
        "prompt": prompt.text if prompt.plain else messages,
        "completion": reply if prompt.plain else [{"role": "assistant", "content": reply}],
        "answer": prompt.answer or "",
        "task": prompt.task,
        "info": prompt.columns.get("info", {}),
    }


def _shown(value: float | None) -> str:
    return "None" if value is None else f"{value:g}"
