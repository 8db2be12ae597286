"""An entropy bonus that is there only while the entropy is too low."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any


@dataclass(slots=True, kw_only=True)
class AdaptiveEntropy:
    """After each step coef += delta if H <= target, else coef -= delta, within [floor, ceiling] (arXiv 2505.22312).

    The bonus is applied only while the last entropy (nats a token) was at or below the target; before the first step
    it is not known, and the bonus is 0.
    """

    first: float = 0.0
    target: float = 0.2
    delta: float = 0.005
    floor: float = 0.0
    ceiling: float = 1.0
    _coef: float = field(default=0.0, init=False)
    _last: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.target > 0 or not self.delta > 0 or not 0 <= self.floor <= self.ceiling:
            raise ValueError(
                f"target > 0, delta > 0 and 0 <= floor <= ceiling expected, got {self.target}, {self.delta}, "
                f"{self.floor} and {self.ceiling}"
            )
        self._coef = self.first

    def coef(self, step: int, steps: int, /) -> float:
        return self._coef if self._last is not None and self._last <= self.target else 0.0

    def observe(self, metrics: Mapping[str, float], step: int, /) -> None:
        entropy = metrics.get("entropy", float("nan"))
        if isfinite(entropy):
            change = self.delta if entropy <= self.target else -self.delta
            self._coef = min(self.ceiling, max(self.floor, self._coef + change))
            self._last = entropy

    def state(self) -> dict[str, Any]:
        return {"coef": self._coef, "last": self._last}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self._coef, self._last = float(state["coef"]), state["last"]
