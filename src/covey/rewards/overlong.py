"""A soft penalty for responses that come close to the token limit."""

from __future__ import annotations

from dataclasses import dataclass

from covey.rewards.base import ScoreContext
from covey.types import Group, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftOverlong:
    """0 up to ``limit - margin`` sampled tokens, then falling to -1 at ``limit`` and beyond (DAPO, 2503.14476, eq. 13).

    Give it a weight below that of correctness. It never says whether a response is right.
    """

    limit: int
    margin: int
    name: str = "overlong"

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= self.limit or self.limit < 1:
            raise ValueError(f"0 <= margin <= limit and limit >= 1 tokens expected, got {self.margin} and {self.limit}")

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        return [
            Part(value=self.of_length(member.sampled_tokens), why=f"{member.sampled_tokens} tokens")
            for member in group.members
        ]

    def of_length(self, tokens: int) -> float:
        """The penalty for so many tokens."""
        free = self.limit - self.margin
        if tokens <= free:
            return 0.0
        return -1.0 if tokens > self.limit else (free - tokens) / self.margin
