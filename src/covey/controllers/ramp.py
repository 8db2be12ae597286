"""Coefficients that follow the step number: constant, linear and cosine."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi

from covey.controllers.base import Memoryless


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Memoryless):
    """The same coefficient in every step."""

    first: float

    def coef(self, step: int, steps: int, /) -> float:
        return self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Memoryless):
    """A straight line from ``first`` to ``last`` over the first ``fraction`` of the run, then ``last``."""

    first: float
    last: float = 0.0
    fraction: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"0 < fraction <= 1 expected, got {self.fraction}")

    def coef(self, step: int, steps: int, /) -> float:
        way = min(1.0, step / max(1.0, self.fraction * (steps - 1)))
        return self.first + (self.last - self.first) * self.bent(way)

    def bent(self, way: float) -> float:
        """The share of the change that is done when this share of the steps is."""
        return way


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine(Linear):
    """As linear, along half a cosine: slow at both ends."""

    def bent(self, way: float) -> float:
        return (1 - cos(pi * way)) / 2


RAMPS: dict[str, type[Constant] | type[Linear]] = {"constant": Constant, "linear": Linear, "cosine": Cosine}
