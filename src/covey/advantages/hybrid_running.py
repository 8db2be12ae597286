"""Hybrid baseline with running statistics: the siblings' mean shrunk towards the mean reward of earlier steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from covey.advantages.base import check_knobs, credited, rewards_of
from covey.advantages.hybrid import against, moments, shrinkage, spread
from covey.types import CreditedGroup, ScoredGroup


@dataclass(slots=True, kw_only=True)
class HybridRunning:
    """As :class:`covey.advantages.hybrid.Hybrid`, with mean, within and between variance averaged over earlier steps.

    lam = (within / (n - 1)) / (within / (n - 1) + between); each is an exponential mean with weight 1 - ``decay`` on
    the newest step, read before the step itself is added, so the gradient is unbiased. A group of one is credited
    against the running mean, which needs no other prompt in the batch. In the first step it is RLOO, and a lone
    response gets nothing.
    """

    decay: float = 0.9
    tolerance: float = 1e-8
    smallest_group: ClassVar[int] = 1
    _known: dict[str, float] = field(default_factory=dict, init=False)  # mean, within, between

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)
        if not 0 <= self.decay < 1:
            raise ValueError(f"0 <= decay < 1 expected, got {self.decay}")

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        mean = self._known.get("mean")
        done = []
        for group in groups:
            values = rewards_of(group)
            size = int((~np.isnan(values)).sum())
            lam = shrinkage(size, self._known.get("within", np.nan), self._known.get("between", np.nan))
            done.append(credited(group, against(values, lam, mean, self.tolerance), self.tolerance))
        return done

    def observe(self, groups: Sequence[ScoredGroup], drift: float, /) -> None:
        """Add a step's mean, within and between variance; ``drift`` is not used."""
        sizes, means, variances = moments([rewards_of(group) for group in groups])
        present = sizes > 0
        if not present.any():
            return
        within, between = spread(sizes[present], means[present], variances[present])
        newest = {"mean": float(means[present].mean()), "within": within, "between": between}
        for name, value in newest.items():
            if not np.isnan(value):
                old = self._known.get(name, value)
                self._known[name] = self.decay * old + (1 - self.decay) * value

    def state(self) -> dict[str, Any]:
        return dict(self._known)

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self._known = {name: float(value) for name, value in state.items()}
