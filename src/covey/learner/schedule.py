"""Learning rate over the run: linear warm-up, then constant, linear or cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Decay = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """``peak`` is reached at step ``warmup - 1`` and ``final_fraction`` of it at the last step; steps count from 0."""

    peak: float
    steps: int
    warmup: int = 0
    decay: Decay = "constant"
    final_fraction: float = 0.0

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        span = self.steps - 1 - self.warmup
        if self.decay == "constant" or span <= 0:
            return self.peak
        done = min(1.0, (step - self.warmup) / span)
        shape = 1.0 - done if self.decay == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
        return self.peak * (self.final_fraction + (1.0 - self.final_fraction) * shape)
