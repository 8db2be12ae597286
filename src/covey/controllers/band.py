"""A dead band for the KL coefficient: nothing happens while the divergence is where it should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from covey.controllers.units import KL_METRICS


@dataclass(slots=True, kw_only=True)
class Band:
    """coef <- clip(coef (1 + gain e), floor, ceiling); e = 0 while low <= KL <= high.

    Above the band e = clip(KL / high - 1, 0, 0.2), below it e = clip(KL / low - 1, -0.2, 0). KL in nats, per ``unit``.
    The first ``warmup`` steps change nothing: at the start KL is 0 whatever the coefficient.
    """

    first: float
    low: float = 0.01
    high: float = 0.5
    gain: float = 0.1
    floor: float = 1e-4
    ceiling: float = 1.0
    warmup: int = 10
    unit: Literal["token", "sequence"] = "token"
    _coef: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high or not 0 < self.floor <= self.ceiling or self.gain <= 0:
            raise ValueError(
                "0 < low < high, 0 < floor <= ceiling and gain > 0 expected, got "
                f"{self.low}, {self.high}, {self.floor}, {self.ceiling} and {self.gain}"
            )
        if not self.floor <= self.first <= self.ceiling:
            raise ValueError(f"coef = {self.first} must lie within floor {self.floor} and ceiling {self.ceiling}")
        self._coef = self.first

    def coef(self, step: int, steps: int, /) -> float:
        return self._coef

    def observe(self, metrics: Mapping[str, float], step: int, /) -> None:
        kl = metrics.get(KL_METRICS[self.unit], float("nan"))
        if isfinite(kl) and step >= self.warmup:
            self._coef = self.after(kl)

    def after(self, kl: float) -> float:
        """The coefficient after a step with this KL."""
        error = min(0.2, max(0.0, kl / self.high - 1)) + max(-0.2, min(0.0, kl / self.low - 1))
        return min(self.ceiling, max(self.floor, self._coef * (1 + self.gain * error)))

    def state(self) -> dict[str, Any]:
        return {"coef": self._coef}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self._coef = float(state["coef"])
