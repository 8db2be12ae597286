"""What every advantage estimator shares: rewards of a group, what siblings say about each other, token streams.

A new estimator is one small file: a frozen dataclass whose ``__call__`` takes the scored groups of a step. One that
looks at one group's rewards at a time is :func:`credit_each` and a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from covey.errors import AdvantageError
from covey.types import CreditedGroup, ScoredGroup, Signal


class Advantage(Protocol):
    """Turns the scored groups of one step into credited groups, in the same order.

    A class may have ``needs``, a frozenset of "greedy" (one more response at temperature 0 for every prompt), "steps"
    (step rewards with their places in the text) or "penalty" (the KL penalty token by token);
    ``smallest_group`` and ``smallest_batch``, the responses to a prompt and in all that it takes to credit any of them
    (2 and 1 if it says nothing); ``ignores_total = True`` if it is not computed from the total reward; and
    ``bounded = True`` if it takes rewards of a certain range only.
    """

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]: ...


@runtime_checkable
class Remembering(Protocol):
    """An estimator whose baseline comes from earlier steps: it never changes while it credits, only in ``observe``."""

    def observe(self, groups: Sequence[ScoredGroup], drift: float, /) -> None:
        """Learn from a step that has been credited. ``drift``: KL of the step's updates, nats a token; 0 if unknown."""
        ...

    def state(self) -> dict[str, Any]:
        """All that it remembers, as JSON."""
        ...

    def load_state(self, state: Mapping[str, Any], /) -> None:
        """The reverse of ``state``."""
        ...


def needs_of(part: object) -> frozenset[str]:
    """What a component asks of the stages before it, by its attribute ``needs``."""
    return frozenset(getattr(part, "needs", ()))


def usable_rewards(rewards: Sequence[float | None]) -> np.ndarray:
    """Return f64[G] with NaN where a reward is missing (None or NaN).

    Raises ValueError on an infinite reward: no statistic of its group would be finite.
    """
    values = np.array([np.nan if r is None else float(r) for r in rewards], dtype=np.float64)
    if np.isinf(values).any():
        raise ValueError(f"rewards must be finite or missing, got {list(rewards)}; clip the reward or return None")
    return values


def outcome_of(scored: ScoredGroup) -> np.ndarray:
    """Rewards f64[G] before any KL penalty; NaN where there is none."""
    if scored.shaped is not None:
        return scored.shaped.outcome
    return usable_rewards([score.total for score in scored.scores])


def rewards_of(scored: ScoredGroup) -> np.ndarray:
    """Rewards f64[G] that credit is computed from: the outcome less the response's summed KL penalty."""
    outcome = outcome_of(scored)
    if scored.shaped is None or scored.shaped.penalty is None:
        return outcome
    return outcome - np.array([penalty.sum() for penalty in scored.shaped.penalty])


def is_degenerate(values: np.ndarray, tolerance: float) -> bool:
    """Whether fewer than two usable rewards remain or all of them agree to within ``tolerance`` (max - min)."""
    present = values[~np.isnan(values)]
    return present.size < 2 or float(present.max() - present.min()) <= tolerance


def silent_signal(scored: ScoredGroup) -> Signal:
    """Say why there is no contrast in a degenerate group, from the raw correctness where it is known."""
    usable = ~np.isnan(outcome_of(scored))
    judged = [score for score, counts in zip(scored.scores, usable, strict=True) if counts]
    if len(judged) < 2:
        return "too_few"
    verdicts = {score.correct for score in judged}
    if verdicts == {True}:
        return "all_right"
    if verdicts == {False}:
        return "all_wrong"
    return "zero_variance"


def signal_of(scored: ScoredGroup, tolerance: float) -> Signal:
    """``ok`` if usable rewards differ by more than ``tolerance``, else the reason why they do not."""
    return silent_signal(scored) if is_degenerate(rewards_of(scored), tolerance) else "ok"


def credited(scored: ScoredGroup, values: np.ndarray, tolerance: float) -> CreditedGroup:
    """Broadcast one advantage a response, f64[G], over its trained tokens; NaN and missing rewards become 0."""
    usable = ~np.isnan(rewards_of(scored)) & ~np.isnan(values)
    streams = tuple(
        np.where(trained, np.float32(value if counts else 0.0), np.float32(0.0))
        for trained, value, counts in zip(scored.trained, values, usable, strict=True)
    )
    return CreditedGroup(scored=scored, advantages=streams, signal=signal_of(scored, tolerance))


def uncredited(scored: ScoredGroup, tolerance: float = 1e-8) -> CreditedGroup:
    """A group that is only looked at: every advantage is 0, the signal says what its siblings would have told."""
    return credited(scored, np.zeros(len(scored.scores)), tolerance)


def credit_each(
    groups: Sequence[ScoredGroup], of_rewards: Callable[[np.ndarray], np.ndarray], tolerance: float
) -> list[CreditedGroup]:
    """Apply a within-group estimator to every group and broadcast each value over the tokens its response trains.

    ``of_rewards`` gets f64[n] of usable rewards (n >= 2, not all equal) and returns f64[n]. Degenerate groups get
    exactly 0: dividing by a tiny spread would turn rounding noise into an advantage of order one.
    """
    done = []
    for scored in groups:
        rewards = rewards_of(scored)
        values = np.zeros_like(rewards)
        if not is_degenerate(rewards, tolerance):
            present = ~np.isnan(rewards)
            values[present] = of_rewards(rewards[present])
        done.append(credited(scored, values, tolerance))
    return done


def check_credited(groups: Sequence[ScoredGroup], credited: Sequence[CreditedGroup], name: str) -> None:
    """Raise AdvantageError unless there is one finite stream of the right length for every member of every group."""
    if not isinstance(credited, list) or len(credited) != len(groups):
        raise AdvantageError(f"advantage {name} must return one CreditedGroup for each of {len(groups)} groups")
    for group, found in zip(groups, credited, strict=True):
        shapes = [stream.shape for stream in found.advantages]
        if shapes != [member.tokens.shape for member in group.group.members]:
            raise AdvantageError(f"advantage {name} must give each member one number a token, got shapes {shapes}")
        if not all(np.isfinite(stream).all() for stream in found.advantages):
            raise AdvantageError(
                f"advantage {name} gave a number that is not finite for prompt {group.group.prompt.uid!r}; rewards "
                f"{rewards_of(group).tolist()}"
            )


def check_knobs(**knobs: float) -> None:
    """Raise ValueError naming the first knob that is negative or not finite, or a ``std_ddof`` that is not 0 or 1."""
    for name, value in knobs.items():
        if name == "std_ddof" and value not in (0, 1):
            raise ValueError(f"std_ddof is 0 (population) or 1 (sample), got {value}")
        if not np.isfinite(value) or value < 0:
            raise ValueError(f"{name} must be finite and not negative, got {value}")
