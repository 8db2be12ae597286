"""Length that counts one way for right responses and the other way for wrong ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from covey.rewards.base import ScoreContext
from covey.rewards.compose import is_right
from covey.types import Group, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineLength:
    """Half a cosine over the sampled tokens T, from one value at 0 to another at ``limit`` (2502.03373).

    value = last + (first - last) (1 + cos(pi T / limit)) / 2, with (first, last) = ``right`` or ``wrong``; at ``limit``
    and beyond it is ``exceed``. By default short is better for right responses and long, up to the limit, for wrong
    ones. ``after`` names the part that knows which is which; None where that is None. It is in place of that part, so
    give that one a weight of 0, or the difference between right and wrong counts twice.

    Farmed by filling wrong responses with text up to the limit: use it with ``wrong_repetition``.
    """

    after: str
    limit: int
    right: tuple[float, float] = (1.0, 0.5)
    wrong: tuple[float, float] = (-1.0, -0.5)
    exceed: float = -1.0
    name: str = "cosine_length"

    def __post_init__(self) -> None:
        values = (*self.right, *self.wrong, self.exceed)
        if self.limit < 1 or not all(math.isfinite(value) for value in values):
            raise ValueError(f"limit >= 1 tokens and finite values expected, got {self.limit} and {values}")

    async def score_after(self, group: Group, context: ScoreContext, verdicts: Sequence[Part], /) -> list[Part]:
        return [
            self._part(verdict, member.sampled_tokens) for member, verdict in zip(group.members, verdicts, strict=True)
        ]

    def _part(self, verdict: Part, tokens: int) -> Part:
        if verdict.value is None:
            return Part(value=None, why=f"{self.after} could not be judged")
        right = is_right(verdict)
        return Part(value=self.of_length(tokens, right), why=f"{'right' if right else 'wrong'}, {tokens} tokens")

    def of_length(self, tokens: int, right: bool) -> float:
        """The value of so many tokens."""
        if tokens >= self.limit:
            return float(self.exceed)
        first, last = self.right if right else self.wrong
        return last + (first - last) * (1 + math.cos(math.pi * tokens / self.limit)) / 2
