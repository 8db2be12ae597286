"""The right number within a tolerance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from covey.rewards.base import ResponseReward
from covey.rewards.extract import check_places, final_answer
from covey.types import Part, Prompt

LONGEST = 100
"""Characters of a number; longer is noise."""

_DIGITS = r"\d{1,3}(?P<gap>[%s \u00a0\u202f])\d{3}(?:(?P=gap)\d{3})*|\d+"
_NUMBER = {
    point: re.compile(
        rf"([-+]?)(?:({_DIGITS % other})?(?:{re.escape(point)}(\d*))?)(?:[eE]([-+]?\d{{1,3}}))?", re.ASCII
    )
    for point, other in ((".", ","), (",", "."))
}


def read_decimal(text: str, point: str = ".") -> Fraction | None:
    """A finite decimal number, exactly, or None: ``1,234.50``, ``-.5``, ``1 234``, ``$3``, ``2.5e-3``.

    Thousands are separated by the other of point and comma, or by one kind of blank, all of them or none.
    """
    bare = text.strip().strip("$€£").strip().removesuffix(".").replace("−", "-").replace(r"\,", "").strip()
    found = _NUMBER[point].fullmatch(bare) if len(bare) <= LONGEST else None
    if found is None:
        return None
    sign, whole, _, part, exponent = found.groups()
    if not whole and not part:
        return None
    digits = re.sub(r"\D", "", whole or "0", flags=re.ASCII)
    return Fraction(f"{sign}{digits}.{part or 0}e{exponent or 0}")


@dataclass(frozen=True, kw_only=True)
class NumberMatch(ResponseReward):
    """1 if the number at the first of ``places`` that the reply has is the prompt's, else 0.

    |number - answer| <= max(``abs_tol``, ``rel_tol`` |answer|), in exact arithmetic: 0 and 0, the default, ask for the
    very number. Decimal numbers alone are read, of at most 100 characters, with ``point`` between whole and broken
    part; the last full stop, a currency sign and separators of thousands do not count. An answer in the data that is no
    number cannot be judged (None).

    With a tolerance it is farmed by round numbers near the usual answers.
    """

    places: tuple[str, ...] = ("boxed", "tag:answer", "hashes", "phrase")
    rel_tol: float = 0.0
    abs_tol: float = 0.0
    point: Literal[".", ","] = "."
    name: str = "number"

    def __post_init__(self) -> None:
        check_places(self.places)
        if not 0 <= self.rel_tol < 1 or not 0 <= self.abs_tol < float("inf") or self.point not in _NUMBER:
            raise ValueError(
                '0 <= rel_tol < 1, a finite abs_tol >= 0 and point "." or "," expected, got '
                f"{self.rel_tol}, {self.abs_tol} and {self.point!r}"
            )

    def unfit(self, prompt: Prompt) -> str | None:
        """Why the expected answer cannot be compared with, if there is one."""
        known = prompt.answer is None or read_decimal(prompt.answer, self.point) is not None
        return None if known else f"{prompt.answer!r} is not a number"

    def judge(self, prompt: Prompt, reply: str) -> Part:
        gold = None if prompt.answer is None else read_decimal(prompt.answer, self.point)
        if gold is None:
            return Part(value=None, why=self.unfit(prompt) or "there is no answer to compare with")
        found = final_answer(reply, self.places)
        value = None if found is None else read_decimal(found, self.point)
        if found is None or value is None:
            why = "no answer found" if found is None else f"{found[:40]!r} is not a number"
            return Part(value=0.0, why=why, correct=False)
        # through their text, so that 0.1 means a tenth
        allowed = max(Fraction(str(self.abs_tol)), Fraction(str(self.rel_tol)) * abs(gold))
        right = abs(value - gold) <= allowed
        return Part(value=float(right), why=f"{found[:40]} {'=' if right else '≠'} {prompt.answer}", correct=right)
