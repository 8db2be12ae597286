"""Right responses count in full only if they stay below a length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from covey.rewards.base import ScoreContext
from covey.rewards.compose import is_right
from covey.rewards.length_budget import budget_of, check_budget
from covey.types import Group, Part, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class WithinBudget:
    """The reward of L1-Max (2503.04697): right x clip(``alpha`` (n - T) + ``delta``, 0, 1).

    T sampled tokens, n the prompt's ``column`` (which its text should ask for), else ``budget``; without either it
    cannot be judged (None). A right response of just n tokens has ``delta``, and loses or gains ``alpha`` with each
    token; a wrong one has 0. ``after`` names the part that knows right from wrong; None where that is None. It is the
    paper's whole reward, so give that part a weight of 0, or both add up.

    Farmed by guessing short where guesses are often right.
    """

    after: str
    budget: int | None = None
    column: str = "budget"
    alpha: float = 3e-4
    delta: float = 0.5
    name: str = "within_budget"

    def __post_init__(self) -> None:
        check_budget(self.alpha, self.budget)
        if not 0 <= self.delta <= 1:
            raise ValueError(f"0 <= delta <= 1 expected, got {self.delta}")

    def unfit(self, prompt: Prompt) -> str | None:
        """Why the prompt's budget cannot be read, if it has one."""
        try:
            budget_of(prompt, self.column, self.budget)
        except ValueError as error:
            return str(error)
        return None

    async def score_after(self, group: Group, context: ScoreContext, verdicts: Sequence[Part], /) -> list[Part]:
        try:
            budget, why = budget_of(group.prompt, self.column, self.budget), "the prompt has no budget"
        except ValueError as error:
            budget, why = None, str(error)
        if budget is None:
            return [Part(value=None, why=why) for _ in group.members]
        return [
            self._part(verdict, member.sampled_tokens, budget)
            for member, verdict in zip(group.members, verdicts, strict=True)
        ]

    def _part(self, verdict: Part, tokens: int, budget: int) -> Part:
        if verdict.value is None:
            return Part(value=None, why=f"{self.after} could not be judged")
        share = min(1.0, max(0.0, self.alpha * (budget - tokens) + self.delta))
        right = is_right(verdict)
        return Part(value=share if right else 0.0, why=f"{'right' if right else 'wrong'}, {tokens} of {budget} tokens")
