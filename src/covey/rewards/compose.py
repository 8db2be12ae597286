"""How the parts of a reward make one total: weights, gates and caps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.errors import ConfigError
from covey.rewards.base import DependentReward, Reward
from covey.types import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedReward:
    """One reward with its weight in the total.

    ``gate`` names another part: where that one is not right, this one counts 0. A part is right if it says so, and one
    that does not know right from wrong if its value is 1 or more. ``cap`` is the most that the part's value counts for.
    """

    reward: Reward | DependentReward
    weight: float = 1.0
    gate: str | None = None
    cap: float | None = None

    def counted(self, part: Part, others: Mapping[str, Part]) -> Part:
        """The part as it enters the total; ``others`` are all parts of the response, by name.

        None if the gate itself could not be judged: nobody knows whether this part counts then.
        """
        if part.value is None:
            return part
        if self.gate is not None:
            gate = others[self.gate]
            if gate.value is None:
                return replace(part, value=None, why=f"{self.gate} could not be judged")
            if not is_right(gate):
                return replace(part, value=0.0, why=f"{part.value:g}, but {self.gate} is not right. {part.why}".strip())
        if self.cap is not None and part.value > self.cap:
            return replace(part, value=self.cap, why=f"{part.value:g}, capped. {part.why}".strip())
        return part


def is_right(part: Part) -> bool:
    """By its own word, or by a value of 1 or more."""
    return part.correct if part.correct is not None else (part.value or 0.0) >= 1.0


def check_links(rewards: Sequence[WeightedReward]) -> None:
    """Raises ConfigError for a gate that is no other part, and for a dependent part whose ``after`` is not there."""
    names = [item.reward.name for item in rewards]
    for item in rewards:
        others = ", ".join(name for name in names if name != item.reward.name) or "none here"
        if item.gate is not None and (item.gate not in names or item.gate == item.reward.name):
            raise ConfigError(
                f"reward {item.reward.name!r} has gate {item.gate!r}, which is no other part. Others: {others}."
            )
        if isinstance(item.reward, DependentReward):
            known = [other.reward.name for other in rewards if not isinstance(other.reward, DependentReward)]
            if item.reward.after not in known:
                raise ConfigError(
                    f"reward {item.reward.name!r} counts by the verdicts of {item.reward.after!r}, which is no part "
                    f"that judges by itself. Set its 'after' to one of: {', '.join(known) or 'none here'}."
                )
