"""Process rewards: the steps of all siblings pooled, and each token credited with the steps still to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from covey.advantages.base import check_knobs, is_degenerate, rewards_of, silent_signal
from covey.errors import AdvantageError
from covey.types import CreditedGroup, ScoredGroup, StepReward, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A_t = sum of (r_j - mean) / (std + eps) over steps j that end at or after token t (arXiv 2402.03300, sec. 4.1.3).

    Mean and standard deviation are over the step rewards of all siblings together. Early tokens add up more steps, so
    long responses get larger advantages. A response without step rewards has advantage 0; if nobody has any, that is
    an AdvantageError.
    """

    std_ddof: int = 1
    eps: float = 1e-4
    tolerance: float = 1e-8
    needs: ClassVar[frozenset[str]] = frozenset({"steps"})
    ignores_total: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_knobs(eps=self.eps, tolerance=self.tolerance, std_ddof=self.std_ddof)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        judged = [
            s for group in groups for s, r in zip(group.scores, rewards_of(group), strict=True) if not np.isnan(r)
        ]
        if judged and not any(score.steps for score in judged):
            raise AdvantageError(
                "process credits step rewards, and no response has any: use a reward that gives Part.steps, or another "
                "advantage"
            )
        return [self._credit(group) for group in groups]

    def _credit(self, group: ScoredGroup) -> CreditedGroup:
        usable = ~np.isnan(rewards_of(group))
        steps = [score.steps if counts else () for score, counts in zip(group.scores, usable, strict=True)]
        pooled = np.array([step.value for found in steps for step in found], dtype=np.float64)
        if not np.isfinite(pooled).all():
            raise ValueError(f"step rewards must be finite, got {pooled.tolist()}")
        if is_degenerate(pooled, self.tolerance):
            silent = tuple(np.zeros(len(mask), dtype=np.float32) for mask in group.trained)
            return CreditedGroup(scored=group, advantages=silent, signal=silent_signal(group))
        mean, deviation = pooled.mean(), pooled.std(ddof=self.std_ddof) + self.eps
        streams = []
        for member, mask, found in zip(group.group.members, group.trained, steps, strict=True):
            values = np.zeros(len(mask))
            for step, last in zip(found, last_tokens(member, found), strict=True):
                values[: last + 1] += (step.value - mean) / deviation
            streams.append(np.where(mask, values, 0.0).astype(np.float32))
        return CreditedGroup(scored=group, advantages=tuple(streams), signal="ok")


def last_tokens(member: Trajectory, steps: Sequence[StepReward]) -> list[int]:
    """The position in the trajectory of each step's last token; a step that reaches the end has the end token too.

    Raises ValueError where the rollout did not keep the characters of tokens.
    """
    turn = member.turns[-1]
    if turn.ends is None:
        raise ValueError("step rewards need the place of each token in the text: rollout(..., text_ends=True)")
    last = len(turn.ends) - 1
    whole = len(turn.reply)
    return [
        turn.start + (last if step.end >= whole else min(last, int(np.searchsorted(turn.ends, step.end))))
        for step in steps
    ]
