"""Ways to put an answer into a reply: the forms that rewards look for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from covey.rewards.compose import WeightedReward
from covey.types import Prompt

PROGRAMS = ("solution", "canonical_solution", "reference_solution", "code")
"""Columns that may hold a right program."""

_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class Frame:
    """A form with a place for the answer."""

    name: str
    before: str
    after: str

    def around(self, answer: str) -> str:
        """The reply that gives this answer."""
        return f"{self.before}{answer}{self.after}"


FRAMES = (
    Frame("plain", "", ""),
    Frame("answer element", "<answer>", "</answer>"),
    Frame("think and answer elements", "<think>I work it out step by step.</think>\n<answer>", "</answer>"),
    Frame("boxed", "I work it out step by step. The answer is \\boxed{", "}."),
    Frame("think element, boxed", "<think>I work it out step by step.</think>\nThe answer is \\boxed{", "}."),
    Frame("hashes", "I work it out step by step.\n#### ", ""),
    Frame("sentence", "The answer is ", "."),
    Frame("python block", "```python\n", "\n```"),
)


def frames_of(rewards: Sequence[WeightedReward]) -> tuple[Frame, ...]:
    """The known forms, and those that the rewards ask for by their ``tags`` or ``language``."""
    found = list(FRAMES)
    for item in rewards:
        tags = getattr(item.reward, "tags", None)
        if isinstance(tags, tuple) and len(tags) > 1:
            earlier = "".join(f"<{tag}>I work it out step by step.</{tag}>\n" for tag in tags[:-1])
            found.append(Frame(f"elements {', '.join(tags)}", f"{earlier}<{tags[-1]}>", f"</{tags[-1]}>"))
        language = getattr(item.reward, "language", None)
        if isinstance(language, str) and language != "python":
            found.append(Frame(f"{language} block", f"```{language}\n", "\n```"))
    return tuple(found)


def right_answer(prompt: Prompt) -> str | None:
    """A right program where the row has one, else its answer."""
    columns: Mapping[str, Any] = prompt.columns
    program = next((columns[name] for name in PROGRAMS if isinstance(columns.get(name), str)), None)
    return program or prompt.answer


def wrong_answer(right: str) -> str | None:
    """A near miss: the last number one higher, the next letter, a program whose results are gone; None for other."""
    if "return " in right or "print(" in right:
        return re.sub(r"\breturn [^\n]+", "return None", right).replace("print(", "str(")
    if len(right.strip()) == 1 and right.strip().upper() in "ABCDEFGHI":
        return right.replace(right.strip(), chr(ord(right.strip()) + 1))
    numbers = list(_NUMBER.finditer(right))
    if not numbers:
        return None
    last = numbers[-1]
    return right[: last.start()] + str(int(last[0]) + 1) + right[last.end() :]
