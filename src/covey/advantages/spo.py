"""SPO: no group at all; every prompt remembers its own pass rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from covey.advantages.base import check_knobs, credited, rewards_of
from covey.advantages.whiten import whiten_responses
from covey.errors import AdvantageError
from covey.types import CreditedGroup, ScoredGroup


@dataclass(slots=True, kw_only=True)
class SPO:
    """A = r - a / (a + b), whitened over the batch (arXiv 2509.13232); rewards lie in [0, 1].

    a and b are a Beta posterior a prompt (its uid), read before this step's rewards are added: a <- f a + r,
    b <- f b + 1 - r for each response, f once a visit. The policy has changed since the last visit, so old evidence
    fades: f = clip(2^(-D / drift_half), forget_min, forget_max), D the KL per token of all updates since then. Where
    the drift is not measured (one update a batch) f is ``forget_max``. A prompt that was never seen starts at
    ``prior_mean`` with the weight of ``prior_size`` responses.
    """

    drift_half: float = 0.06
    forget_min: float = 0.875
    forget_max: float = 0.96
    prior_mean: float = 0.5
    prior_size: float = 2.0
    std_ddof: int = 1
    eps: float = 1e-8
    tolerance: float = 1e-8
    smallest_group: ClassVar[int] = 1
    smallest_batch: ClassVar[int] = 2
    bounded: ClassVar[bool] = True
    _seen: dict[str, list[float]] = field(default_factory=dict, init=False)  # uid: a, b, total drift when it was seen
    _drift: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        check_knobs(prior_size=self.prior_size, eps=self.eps, tolerance=self.tolerance, std_ddof=self.std_ddof)
        if (
            not 0 <= self.forget_min <= self.forget_max <= 1
            or not 0 < self.prior_mean < 1
            or min(self.drift_half, self.prior_size) <= 0
        ):
            raise ValueError(
                "0 <= forget_min <= forget_max <= 1, 0 < prior_mean < 1, drift_half > 0, prior_size > 0 expected, got "
                f"{self.forget_min}, {self.forget_max}, {self.prior_mean}, {self.drift_half} and {self.prior_size}"
            )

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        raw = [self._rewards(group) - self.baseline(group.group.prompt.uid) for group in groups]
        whitened = whiten_responses(raw, self.std_ddof, self.eps, self.tolerance)
        return [credited(group, values, self.tolerance) for group, values in zip(groups, whitened, strict=True)]

    def baseline(self, uid: str) -> float:
        """Posterior mean of the prompt's pass rate."""
        a, b, _ = self._of(uid)
        return a / (a + b)

    def observe(self, groups: Sequence[ScoredGroup], drift: float, /) -> None:
        """Add a credited step's rewards; ``drift`` (nats a token) is what its updates moved the policy by."""
        for group in groups:
            rewards = self._rewards(group)
            rewards = rewards[~np.isnan(rewards)]
            if rewards.size:
                a, b, then = self._of(group.group.prompt.uid)
                f = self.forget(self._drift - then)
                good = float(rewards.sum())
                self._seen[group.group.prompt.uid] = [f * a + good, f * b + rewards.size - good, self._drift]
        self._drift += max(0.0, drift)

    def forget(self, drift: float) -> float:
        """How much of the old evidence stays after the policy moved by ``drift``."""
        return float(np.clip(2.0 ** (-drift / self.drift_half), self.forget_min, self.forget_max))

    def state(self) -> dict[str, Any]:
        return {"seen": {uid: list(values) for uid, values in self._seen.items()}, "drift": self._drift}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self._seen = {uid: list(values) for uid, values in state["seen"].items()}
        self._drift = float(state["drift"])

    def _of(self, uid: str) -> list[float]:
        fresh = [self.prior_mean * self.prior_size, (1 - self.prior_mean) * self.prior_size, self._drift]
        return self._seen.get(uid, fresh)

    @staticmethod
    def _rewards(group: ScoredGroup) -> np.ndarray:
        rewards = rewards_of(group)
        if np.nanmin(rewards, initial=0.0) < 0 or np.nanmax(rewards, initial=1.0) > 1:
            raise AdvantageError(
                f"SPO counts rewards as successes between 0 and 1, got {rewards.tolist()} for prompt "
                f"{group.group.prompt.uid!r}; clip or scale the reward (reward.clip, reward.scale)"
            )
        return rewards
