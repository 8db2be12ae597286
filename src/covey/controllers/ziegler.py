"""Ziegler's adaptive KL coefficient: proportional control of its logarithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from covey.controllers.units import KL_METRICS


@dataclass(slots=True, kw_only=True)
class Ziegler:
    """coef <- coef (1 + e n / horizon), e = clip(KL / target - 1, -0.2, 0.2), n responses (arXiv 1909.08593, sec. 2.2).

    ``target`` is in nats a token or a response, as ``unit`` says: they differ by the length, and implementations do
    not agree. A coefficient of 0 stays 0.
    """

    first: float
    target: float = 0.05
    horizon: float = 10_000.0
    unit: Literal["token", "sequence"] = "token"
    _coef: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not self.target > 0 or not self.horizon > 0:
            raise ValueError(f"target and horizon must be positive, got {self.target} and {self.horizon}")
        self._coef = self.first

    def coef(self, step: int, steps: int, /) -> float:
        return self._coef

    def observe(self, metrics: Mapping[str, float], step: int, /) -> None:
        kl, count = metrics.get(KL_METRICS[self.unit], float("nan")), metrics.get("sequences/trained", 0.0)
        if isfinite(kl):
            self._coef = self.after(kl, int(count))

    def after(self, kl: float, responses: int) -> float:
        """The coefficient after a step whose ``responses`` had this KL."""
        error = min(0.2, max(-0.2, kl / self.target - 1))
        return self._coef * max(0.0, 1 + error * responses / self.horizon)

    def state(self) -> dict[str, Any]:
        return {"coef": self._coef}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self._coef = float(state["coef"])
