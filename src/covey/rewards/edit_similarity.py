"""How few edits lead from the response to the expected text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from covey.errors import MissingExtraError
from covey.rewards.base import ResponseReward
from covey.rewards.extract import check_places, final_answer
from covey.types import Part, Prompt


@cache
def _levenshtein() -> Any:
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise MissingExtraError("rapidfuzz", "text", "The reward edit_similarity") from error
    return Levenshtein


@dataclass(frozen=True, kw_only=True)
class EditSimilarity(ResponseReward):
    """1 - distance / longest: Levenshtein's distance to the prompt's answer over the longer of both lengths; 0 to 1.

    ``unit`` is what is inserted, deleted or replaced: characters, or words between blanks. Case counts, outer blanks do
    not. The time is the product of both lengths, so a text of more than ``longest`` units at the first of ``places`` is
    0 unread, and an expected one so long, or none, cannot be judged (None). It says how near a reply is and not
    whether it is right. Needs the extra ``text``.

    Farmed by copying the prompt or common words where expected texts share them; compare several replies before use.
    """

    places: tuple[str, ...] = ("whole",)
    unit: Literal["characters", "words"] = "characters"
    longest: int = 20_000
    name: str = "edit_similarity"

    def __post_init__(self) -> None:
        check_places(self.places)
        if self.unit not in ("characters", "words") or self.longest < 1:
            raise ValueError(
                f'unit "characters" or "words" and longest >= 1 expected, got {self.unit!r} and {self.longest}'
            )
        _levenshtein()

    def unfit(self, prompt: Prompt) -> str | None:
        """Why the expected answer cannot be compared with, if there is one."""
        size = 0 if prompt.answer is None else len(self._units(prompt.answer))
        return f"the expected answer has {size} {self.unit}, longest is {self.longest}" if size > self.longest else None

    def judge(self, prompt: Prompt, reply: str) -> Part:
        problem = "there is no answer to compare with" if prompt.answer is None else self.unfit(prompt)
        if prompt.answer is None or problem:
            return Part(value=None, why=problem or "")
        found = final_answer(reply, self.places)
        if found is None:
            return Part(value=0.0, why="no answer found")
        given, gold = self._units(found), self._units(prompt.answer)
        if len(given) > self.longest:
            return Part(value=0.0, why=f"{len(given)} {self.unit}, longest is {self.longest}")
        edits = int(_levenshtein().distance(given, gold))
        size = max(len(given), len(gold))
        return Part(value=1.0 - edits / size if size else 1.0, why=f"{edits} edits, {size} {self.unit}")

    def _units(self, text: str) -> str | list[str]:
        return text.split() if self.unit == "words" else text.strip()
