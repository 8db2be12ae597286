"""A penalty for repeating oneself in wrong responses alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from covey.rewards.base import ScoreContext
from covey.rewards.compose import is_right
from covey.rewards.repetition import Repetition
from covey.types import Group, Part, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongRepetition:
    """``penalty`` times the share of n-grams that occurred before, in wrong responses alone (2502.03373, C.2).

    N-grams are of lower-cased words between blanks, as in the paper, or with ``unit = "tokens"`` of sampled tokens.
    ``after`` names the part that knows right from wrong; None where that is None.

    Farmed by padding that never says the same twice, such as counting.
    """

    after: str
    n: int = 3
    penalty: float = -1.0
    unit: Literal["words", "tokens"] = "words"
    name: str = "wrong_repetition"

    def __post_init__(self) -> None:
        Repetition(n=self.n, penalty=self.penalty)
        if self.unit not in ("words", "tokens"):
            raise ValueError(f'unit is "words" or "tokens", got {self.unit!r}')

    async def score_after(self, group: Group, context: ScoreContext, verdicts: Sequence[Part], /) -> list[Part]:
        return [self._part(verdict, member) for member, verdict in zip(group.members, verdicts, strict=True)]

    def _part(self, verdict: Part, member: Trajectory) -> Part:
        if verdict.value is None:
            return Part(value=None, why=f"{self.after} could not be judged")
        if is_right(verdict):
            return Part(value=0.0, why="right")
        return Part(value=Repetition(n=self.n, penalty=self.penalty).of_tokens(self._units(member)), why="wrong")

    def _units(self, member: Trajectory) -> list[int]:
        if self.unit == "tokens":
            return member.tokens[member.sampled].tolist()
        numbers: dict[str, int] = {}
        return [numbers.setdefault(word, len(numbers)) for word in member.reply.lower().split()]
