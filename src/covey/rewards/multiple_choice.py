"""The right letter of a multiple choice question."""

from __future__ import annotations

import re
from dataclasses import dataclass

from covey.rewards.base import ResponseReward
from covey.rewards.extract import check_places, final_answer
from covey.types import Part, Prompt

_DRESS = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|boxed|fbox)\s*\{([^{}]*)\}(.*)", re.DOTALL)
_CHOICE = re.compile(
    r"(?:the\s+)?(?:(?:correct\s+)?(?:answer|option|choice)\s*(?:is\s+|:\s*)?){0,2}"
    r"(?:\(\s*(?P<round>[A-J])\s*\)|\[\s*(?P<square>[A-J])\s*\]|(?P<bare>[A-J])(?=$|\)|[.:](?:\s|$)|\s+(?:because|since)\b))"
    r"(?P<rest>.*)",
    re.DOTALL | re.IGNORECASE,
)
_SECOND = re.compile(
    r"[.)\]\s:]*(?:(?:and|or|and/or)\b|[,/&;])\s*[(\[]?[A-J](?:[)\]:.,\s]|$)|.*?[(\[][A-J][)\]]",
    re.DOTALL | re.IGNORECASE,
)


def read_choice(text: str) -> str | None:
    r"""The one letter A to J that a short text names, upper case, or None.

    ``B``, ``(B)``, ``[b]``, ``B.``, ``B) Paris``, ``**B**: Paris``, ``\text{B}``, ``option B``, ``B because ...``;
    not ``A man``, ``Boston``, ``A or B``, ``(A), (B)``.
    """
    bare = text.replace("*", "").strip(" \t\r\n$_`")
    for _ in range(3):
        dressed = _DRESS.fullmatch(bare)
        if dressed is None:
            break
        bare = f"{dressed[1].strip()}{dressed[2]}".strip(" \t\r\n$_`")
    found = _CHOICE.fullmatch(bare)
    if found is None or _SECOND.match(found["rest"]):
        return None
    if (found["bare"] or "").islower() and re.match(r"[.:]\s*\S", found["rest"]):
        return None  # "e. g." and the like
    return (found["round"] or found["square"] or found["bare"]).upper()


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(ResponseReward):
    """1 if the letter at the first of ``places`` that the reply has is the prompt's, else 0.

    Letters are A to J, written as :func:`read_choice` reads them: never the article of a sentence, never one of two. An
    answer in the data that names no letter cannot be judged (None).

    Farmed by guessing: among four letters a quarter of all guesses is right, whatever the reasoning says.
    """

    places: tuple[str, ...] = ("boxed", "tag:answer", "phrase", "whole")
    name: str = "choice"

    def __post_init__(self) -> None:
        check_places(self.places)

    def unfit(self, prompt: Prompt) -> str | None:
        """Why the expected answer cannot be compared with, if there is one."""
        known = prompt.answer is None or read_choice(prompt.answer) is not None
        return None if known else f"{prompt.answer!r} names no letter from A to J"

    def judge(self, prompt: Prompt, reply: str) -> Part:
        gold = None if prompt.answer is None else read_choice(prompt.answer)
        if gold is None:
            return Part(value=None, why=self.unfit(prompt) or "there is no answer to compare with")
        found = final_answer(reply, self.places)
        letter = None if found is None else read_choice(found)
        if found is None or letter is None:
            why = "no answer found" if found is None else f"{found[:40]!r} names no letter"
            return Part(value=0.0, why=why, correct=False)
        right = letter == gold
        return Part(value=float(right), why=f"{letter} {'=' if right else '≠'} {gold}", correct=right)
