"""A penalty for repeating oneself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from covey.rewards.base import ScoreContext
from covey.types import Group, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """``penalty`` times the share of token n-grams that occurred before, 0 for shorter texts (2502.03373, C.2).

    It never says whether a response is right.
    """

    n: int = 3
    penalty: float = -1.0
    name: str = "repetition"

    def __post_init__(self) -> None:
        if self.n < 1 or self.penalty > 0:
            raise ValueError(f"n >= 1 and a penalty of 0 or less expected, got {self.n} and {self.penalty}")

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        return [Part(value=self.of_tokens(member.tokens[member.sampled].tolist())) for member in group.members]

    def of_tokens(self, tokens: Sequence[int]) -> float:
        """The penalty for these tokens."""
        grams = [tuple(tokens[i : i + self.n]) for i in range(len(tokens) - self.n + 1)]
        return (1 - len(set(grams)) / len(grams)) * self.penalty if grams else 0.0
