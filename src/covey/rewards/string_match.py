"""The right text, letter by letter after normalisation."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from covey.rewards.base import ResponseReward
from covey.rewards.extract import check_places, final_answer
from covey.types import Part, Prompt

LONGEST = 10_000
"""Characters of an answer that is still normalised: the time grows with the square of a run of combining marks."""


@dataclass(frozen=True, kw_only=True)
class StringMatch(ResponseReward):
    """1 if the answer at the first of ``places`` that the reply has equals the prompt's answer, else 0.

    Before, both are normalised: compatible characters made one (``nfkc``: full width, ligatures), case (``casefold``),
    and runs of blanks to one (``blanks``); outer blanks never count. An answer of more than 10,000 characters is wrong.
    A prompt without an answer, or with an empty one, cannot be judged (None).

    Farmed only where ``places`` let a reply name several answers; the last one counts.
    """

    places: tuple[str, ...] = ("boxed", "tag:answer", "hashes", "phrase")
    nfkc: bool = True
    casefold: bool = True
    blanks: bool = True
    name: str = "string"

    def __post_init__(self) -> None:
        check_places(self.places)

    def unfit(self, prompt: Prompt) -> str | None:
        """Why the expected answer cannot be compared with, if there is one."""
        return None if prompt.answer is None else self._problem(prompt.answer) or None

    def judge(self, prompt: Prompt, reply: str) -> Part:
        if prompt.answer is None or self._problem(prompt.answer):
            return Part(value=None, why=self.unfit(prompt) or "there is no answer to compare with")
        found = final_answer(reply, self.places)
        if found is None:
            return Part(value=0.0, why="no answer found", correct=False)
        if len(found) > LONGEST:
            return Part(value=0.0, why=f"an answer of {len(found)} characters", correct=False)
        right = self.normal(found) == self.normal(prompt.answer)
        why = f"{found[:40]!r} {'=' if right else '≠'} {prompt.answer[:40]!r}"
        return Part(value=float(right), why=why, correct=right)

    def normal(self, text: str) -> str:
        """The text as it is compared."""
        if self.nfkc:
            text = unicodedata.normalize("NFKC", text)
        if self.casefold:
            text = text.casefold()
        if self.casefold and self.nfkc:
            text = unicodedata.normalize("NFKC", text)  # folding case may take a composed character apart
        return " ".join(text.split()) if self.blanks else text.strip()

    def _problem(self, gold: str) -> str:
        if len(gold) > LONGEST:
            return f"the expected answer has {len(gold)} characters, {LONGEST} at most are compared"
        return "" if self.normal(gold) else "the expected answer is empty"
