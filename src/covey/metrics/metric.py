"""Typed reductions: a metric knows how it adds up over micro-batches and ranks, so that nothing is averaged twice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Mean:
    """A weighted mean, kept as total and weight until the end. No weight means no value (NaN), not 0."""

    total: float
    weight: float

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.total + other.total, self.weight + other.weight)

    @property
    def value(self) -> float:
        return self.total / self.weight if self.weight else math.nan


@dataclass(frozen=True, slots=True)
class Sum:
    """A plain sum."""

    total: float

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.total + other.total)

    @property
    def value(self) -> float:
        return self.total


@dataclass(frozen=True, slots=True)
class Maximum:
    """The largest value seen; NaN is never hidden."""

    largest: float

    def __add__(self, other: Maximum) -> Maximum:
        if math.isnan(self.largest) or math.isnan(other.largest):
            return Maximum(math.nan)
        return Maximum(max(self.largest, other.largest))

    @property
    def value(self) -> float:
        return self.largest


@dataclass(frozen=True, slots=True)
class Minimum:
    """The smallest value seen; NaN is never hidden."""

    smallest: float

    def __add__(self, other: Minimum) -> Minimum:
        if math.isnan(self.smallest) or math.isnan(other.smallest):
            return Minimum(math.nan)
        return Minimum(min(self.smallest, other.smallest))

    @property
    def value(self) -> float:
        return self.smallest


@dataclass(frozen=True, slots=True)
class Effective:
    """The effective share of weighted samples, (sum w)^2 / (n sum w^2): 1 if all weigh the same. No samples: NaN."""

    total: float
    squares: float
    count: float

    def __add__(self, other: Effective) -> Effective:
        return Effective(self.total + other.total, self.squares + other.squares, self.count + other.count)

    @classmethod
    def of(cls, weights: torch.Tensor) -> Effective:
        """Of weights f64[n]."""
        return cls(float(weights.sum()), float(weights.square().sum()), float(weights.numel()))

    @property
    def value(self) -> float:
        return self.total**2 / (self.count * self.squares) if self.count and self.squares else math.nan


Metric = Mean | Sum | Maximum | Minimum | Effective


def merge(parts: Iterable[Mapping[str, Metric]]) -> dict[str, float]:
    """Reduce the metrics of all micro-batches, name by name, to numbers. Raises TypeError as :func:`combine` does."""
    return {name: metric.value for name, metric in combine(parts).items()}


def combine(parts: Iterable[Mapping[str, Metric]]) -> dict[str, Metric]:
    """Add metrics up, name by name, ready to be combined further. Raises TypeError when a name changes its kind."""
    merged: dict[str, Metric] = {}
    for part in parts:
        for name, metric in part.items():
            seen = merged.get(name)
            if seen is not None and type(seen) is not type(metric):
                raise TypeError(f"metric {name!r} is both {type(seen).__name__} and {type(metric).__name__}")
            merged[name] = metric if seen is None else seen + metric  # type: ignore[operator]
    return merged


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> Mean:
    """Mean of ``values`` [B, S] over the cells where ``mask`` is True; other cells may hold anything."""
    return Mean(float(values[mask].double().sum()), float(mask.sum()))
