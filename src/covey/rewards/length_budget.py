"""A length that the prompt asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from covey.rewards.base import ScoreContext
from covey.types import Group, Part, Prompt


def budget_of(prompt: Prompt, column: str, fixed: int | None) -> int | None:
    """Tokens: the prompt's own, else the fixed ones. Raises ValueError where its column is no whole number above 0."""
    value = prompt.columns.get(column)
    if value is None:
        return fixed
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1 or value != value // 1:
        raise ValueError(f"column {column!r} must be a whole number of tokens above 0, got {value!r}")
    return int(value)


def check_budget(alpha: float, budget: int | None) -> None:
    """Raises ValueError for settings without sense."""
    if not 0 < alpha < float("inf") or (budget is not None and budget < 1):
        raise ValueError(f"alpha > 0 and a budget of 1 token or more expected, got {alpha} and {budget}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBudget:
    """The penalty of L1-Exact (2503.04697): -``alpha`` |n - T|, T sampled tokens of n asked for.

    n is the prompt's ``column`` (which its text should ask for), else ``budget``; without either it cannot be judged
    (None). ``kind = "over"`` takes only what is above n. There is no lower bound: a weight and ``alpha`` of which the
    longest response loses less than a right answer earns keep a right one ahead of a wrong one. It never says
    whether a response is right.

    Farmed by stopping or filling up at the budget, with whatever is there.
    """

    budget: int | None = None
    column: str = "budget"
    kind: Literal["exact", "over"] = "exact"
    alpha: float = 3e-4
    name: str = "length_budget"

    def __post_init__(self) -> None:
        check_budget(self.alpha, self.budget)
        if self.kind not in ("exact", "over"):
            raise ValueError(f'kind is "exact" or "over", got {self.kind!r}')

    def unfit(self, prompt: Prompt) -> str | None:
        """Why the prompt's budget cannot be read, if it has one."""
        try:
            budget_of(prompt, self.column, self.budget)
        except ValueError as error:
            return str(error)
        return None

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        try:
            budget = budget_of(group.prompt, self.column, self.budget)
        except ValueError as error:
            return [Part(value=None, why=str(error)) for _ in group.members]
        if budget is None:
            return [Part(value=None, why="the prompt has no budget") for _ in group.members]
        return [
            Part(value=self.of_length(member.sampled_tokens, budget), why=f"{member.sampled_tokens} of {budget} tokens")
            for member in group.members
        ]

    def of_length(self, tokens: int, budget: int) -> float:
        """The penalty for so many tokens."""
        away = abs(tokens - budget) if self.kind == "exact" else max(0, tokens - budget)
        return 0.0 - self.alpha * away
