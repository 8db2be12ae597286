"""Among siblings, the shorter right ones are better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from covey.rewards.base import ScoreContext
from covey.rewards.compose import is_right
from covey.types import Group, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Brevity:
    """Kimi k1.5's length reward (2501.12599, section 2.3.3): from 0.5 for the shortest sibling to -0.5 for the longest.

    lambda = 0.5 - (T - min) / (max - min), T in sampled tokens, min and max over the siblings. Right responses get
    lambda, wrong ones min(0, lambda); all get 0 where all are of one length. ``after`` names the part that knows right
    from wrong; a sibling of which that is None gets None and counts in neither min nor max.

    Farmed by leaving reasoning out where guesses are often right: start it late, or with a small weight.
    """

    after: str
    name: str = "brevity"

    async def score_after(self, group: Group, context: ScoreContext, verdicts: Sequence[Part], /) -> list[Part]:
        judged = list(zip(group.members, verdicts, strict=True))
        lengths = [member.sampled_tokens for member, verdict in judged if verdict.value is not None]
        return [self._part(verdict, member.sampled_tokens, lengths) for member, verdict in judged]

    def _part(self, verdict: Part, tokens: int, lengths: Sequence[int]) -> Part:
        if verdict.value is None:
            return Part(value=None, why=f"{self.after} could not be judged")
        low, high = min(lengths), max(lengths)
        scaled = 0.5 - (tokens - low) / (high - low) if high > low else 0.0
        return Part(value=scaled if is_right(verdict) else min(0.0, scaled), why=f"{tokens} of {low} to {high} tokens")
