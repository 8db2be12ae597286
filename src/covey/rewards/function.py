"""A user's own function as a reward, with the call signature of TRL's reward functions."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from covey.errors import ConfigError
from covey.rewards.base import ScoreContext
from covey.rewards.calling import accepted, called, numbers
from covey.rewards.rubric import RubricReward, is_rubric, takes_one_response
from covey.rewards.serial import Serial
from covey.types import Group, Part


class FunctionReward:
    """A function called with keywords only, once a group.

    ``f(prompts, completions, completion_ids, <each other column>, trainer_state, log_extra, log_metric)``.
    Lists have one entry a sibling. A chat prompt is passed as messages, with the reply in
    ``completions[i][0]["content"]``; a plain one as strings. Only the arguments that the function takes are passed.
    It returns one number a sibling, or None (NaN) for one it cannot judge; it may be ``async``.

    Calls come one after another, on a thread of their own, each at most ``deadline`` seconds long; a function that says
    it needs the main thread, for a signal perhaps, gets it, and no deadline holds there. A ConnectionError or
    TimeoutError of the function's own is tried ``retries`` times more. What else it raises goes to the score stage,
    which makes data of it. A result of the wrong length or type, or an infinite number, breaks the contract and raises
    RewardError at once.
    """

    def __init__(
        self, function: Callable[..., Any], name: str | None = None, deadline: float = 60.0, retries: int = 0
    ) -> None:
        if deadline <= 0 or retries < 0:
            raise ValueError(
                f"deadline above 0 seconds and retries of 0 or more expected, got {deadline} and {retries}"
            )
        self.function = function
        self.deadline, self.retries = deadline, retries
        self._serial = Serial()
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.logged: list[tuple[str, float]] = []

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        extra: dict[str, list[Any]] = {}
        arguments = accepted(self.function, self._arguments(group, context, extra))
        values = await self._tried(arguments)
        checked = numbers(values, len(group.members), self.name)
        return [Part(value=value, why=self._why(extra, i)) for i, value in enumerate(checked)]

    async def _tried(self, arguments: dict[str, Any]) -> Any:
        left = self.retries
        while True:
            try:
                return await called(self._serial, self.function, arguments, self.deadline)
            except (ConnectionError, TimeoutError):
                if not left:
                    raise
                left -= 1
                await asyncio.sleep(min(8.0, 0.25 * 2 ** (self.retries - left)))

    def _arguments(self, group: Group, context: ScoreContext, extra: dict[str, list[Any]]) -> dict[str, Any]:
        prompt, members = group.prompt, group.members
        messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
        columns = {name: [value] * len(members) for name, value in prompt.columns.items()}
        if prompt.answer is not None:
            columns.setdefault("answer", [prompt.answer] * len(members))
        replies = [member.reply for member in members]
        return columns | {
            "prompts": [prompt.text if prompt.plain else messages for _ in members],
            "completions": replies if prompt.plain else [[{"role": "assistant", "content": text}] for text in replies],
            "completion_ids": [member.tokens[member.sampled].tolist() for member in members],
            "trainer_state": SimpleNamespace(global_step=context.step, max_steps=context.steps),
            "log_extra": lambda column, values: extra.__setitem__(column, list(values)),
            "log_metric": lambda name, value: context.evaluating or self.logged.append((name, float(value))),
        }

    @staticmethod
    def _why(extra: dict[str, list[Any]], index: int) -> str:
        return ", ".join(f"{column}={values[index]}" for column, values in extra.items() if index < len(values))


def load_function(path: str) -> Any:
    """Import ``package.module:name`` with the current folder importable: a function, a class or a rubric.

    Raises ConfigError with the reason.
    """
    module_name, _, attribute = path.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        target: Any = importlib.import_module(module_name)
        for name in attribute.split("."):
            target = getattr(target, name)
    except Exception as error:  # importing runs the user's code, which may raise anything
        raise ConfigError(
            f"cannot load {path!r}: {error}. Expected module:name, importable from {os.getcwd()}"
        ) from error
    if not callable(target) and not is_rubric(target):
        raise ConfigError(f"{path!r} is a {type(target).__name__}, expected a function, a class or a rubric")
    return target


def own_reward(target: Any, knobs: Mapping[str, Any]) -> FunctionReward | RubricReward:
    """A user's function or rubric as a reward; its signature tells which kind it is. Raises TypeError or ValueError."""
    if is_rubric(target):
        return RubricReward.of(target, **knobs)
    if takes_one_response(target):
        return RubricReward([target], [1.0], **{"name": getattr(target, "__name__", "rubric"), **knobs})
    return FunctionReward(target, **knobs)
