"""The right number, exactly: rational comparison without floating point."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from covey.rewards.base import ResponseReward
from covey.rewards.extract import last_element
from covey.types import Part, Prompt

_NUMBER = re.compile(
    r"(?:(?<![\d.)])[-+])?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?|\.\d+)",
    re.ASCII,  # \d would take the digits of every script
)
_LONGEST = 100  # characters; a longer "number" is noise, and parsing it would cost time


def parse_number(text: str) -> Fraction | None:
    """An integer, decimal or fraction as written by people (``1,234``, ``-0.50``, ``3/4``, ``$5``), else None."""
    bare = text.strip().strip("$").rstrip(".").replace("−", "-").strip()
    if len(bare) > _LONGEST or not _NUMBER.fullmatch(bare):
        return None
    try:
        numerator, _, denominator = bare.replace(",", "").partition("/")
        return Fraction(numerator) / Fraction(denominator or 1)
    except ZeroDivisionError:
        return None


@dataclass(frozen=True, kw_only=True)
class ExactNumber(ResponseReward):
    """1 if the response's number equals the prompt's answer, else 0.

    ``tag`` names the element whose last occurrence holds the answer, e.g. ``<answer>221</answer>``; with an empty
    tag the last number of the response counts. An answer in the data that is no number cannot be judged (None).
    """

    tag: str = "answer"
    name: str = "exact_number"

    def judge(self, prompt: Prompt, reply: str) -> Part:
        gold = None if prompt.answer is None else parse_number(prompt.answer)
        if gold is None:
            known = (
                "there is no answer to compare with" if prompt.answer is None else f"{prompt.answer!r} is not a number"
            )
            return Part(value=None, why=known)
        found = self.extract(reply)
        if found is None:
            return Part(value=0.0, why=f"no <{self.tag}> element" if self.tag else "no number", correct=False)
        value = parse_number(found)
        if value is None:
            return Part(value=0.0, why=f"{found[:40]!r} is not a number", correct=False)
        right = value == gold
        return Part(value=float(right), why=f"{found[:40]} {'=' if right else '≠'} {prompt.answer}", correct=right)

    def extract(self, reply: str) -> str | None:
        """The text that is taken for the answer, or None when the response has none."""
        if not self.tag:
            numbers = _NUMBER.findall(reply.replace("−", "-"))
            return numbers[-1] if numbers else None
        return last_element(reply, self.tag)
