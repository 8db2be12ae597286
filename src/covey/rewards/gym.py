"""Scores of reasoning-gym tasks by their own verifiers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from covey.errors import MissingExtraError
from covey.rewards.base import ResponseReward
from covey.rewards.extract import last_element
from covey.types import Part, Prompt


@cache
def _verifier(task: str) -> Any:
    try:
        from reasoning_gym import get_score_answer_fn
    except ImportError as error:
        raise MissingExtraError("reasoning-gym", "gym", f"The reward of {task!r}") from error
    return get_score_answer_fn(task)


@dataclass(frozen=True, kw_only=True)
class GymScore(ResponseReward):
    """The task's own score, 0 to 1, of the text in the last ``<tag>`` element (of the whole reply if ``tag`` is empty).

    Correct means a score of 1. Prompts come from ``gym:TASK``, whose rows carry what the verifier needs.
    """

    tag: str = "answer"
    name: str = "gym"

    def judge(self, prompt: Prompt, reply: str) -> Part:
        source, _, task = prompt.task.partition(":")
        if source != "gym":
            return Part(value=None, why=f"the prompt is of task {prompt.task!r}, not of reasoning-gym")
        entry = prompt.columns.get("entry")
        if entry is None:
            return Part(value=None, why="the prompt does not come from the task's own data")
        answer = last_element(reply, self.tag) if self.tag else reply.strip()
        if answer is None:
            return Part(value=0.0, why=f"no <{self.tag}> element", correct=False)
        value = float(_verifier(task)(answer, entry))
        return Part(value=value, why=f"{answer[:40]!r}", correct=value >= 1.0)
