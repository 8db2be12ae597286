"""What every advantage estimator shares: usable rewards, the reason a group is silent, and the broadcast to tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from covey.types import CreditedGroup, ScoredGroup, Signal


class Advantage(Protocol):
    """Turns the scored groups of one step into credited groups, in the same order."""

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]: ...


def usable_rewards(rewards: Sequence[float | None]) -> np.ndarray:
    """Return f64[G] with NaN where a reward is missing (None or NaN).

    Raises ValueError on an infinite reward: no statistic of its group would be finite.
    """
    values = np.array([np.nan if r is None else float(r) for r in rewards], dtype=np.float64)
    if np.isinf(values).any():
        raise ValueError(f"rewards must be finite or missing, got {list(rewards)}; clip the reward or return None")
    return values


def is_degenerate(values: np.ndarray, tolerance: float) -> bool:
    """Whether fewer than two usable rewards remain or all of them agree to within ``tolerance`` (max - min)."""
    present = values[~np.isnan(values)]
    return present.size < 2 or float(present.max() - present.min()) <= tolerance


def silent_signal(scored: ScoredGroup) -> Signal:
    """Say why a degenerate group teaches nothing, from the raw correctness where it is known."""
    judged = [score for score in scored.scores if score.total is not None]
    if len(judged) < 2:
        return "too_few"
    verdicts = {score.correct for score in judged}
    if verdicts == {True}:
        return "all_right"
    if verdicts == {False}:
        return "all_wrong"
    return "zero_variance"


def credit_each(
    groups: Sequence[ScoredGroup], of_rewards: Callable[[np.ndarray], np.ndarray], tolerance: float
) -> list[CreditedGroup]:
    """Apply a within-group estimator to every group and broadcast each value over the tokens its response sampled.

    ``of_rewards`` gets f64[n] of usable rewards (n >= 2, not all equal) and returns f64[n]. Degenerate groups get
    exactly 0: dividing by a tiny spread would turn rounding noise into an advantage of order one.
    """
    credited = []
    for scored in groups:
        rewards = usable_rewards([score.total for score in scored.scores])
        values = np.zeros_like(rewards)
        degenerate = is_degenerate(rewards, tolerance)
        if not degenerate:
            present = ~np.isnan(rewards)
            values[present] = of_rewards(rewards[present])
        streams = tuple(
            np.where(member.sampled, np.float32(value), np.float32(0.0))
            for member, value in zip(scored.group.members, values, strict=True)
        )
        signal = silent_signal(scored) if degenerate else "ok"
        credited.append(CreditedGroup(scored=scored, advantages=streams, signal=signal))
    return credited
