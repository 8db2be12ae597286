"""What is known of each prompt's pass rate from earlier steps: a Beta posterior that slowly forgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(slots=True, kw_only=True)
class PassRates:
    """Beta(a, b) a prompt: a <- forget a + right, b <- forget b + wrong at each visit.

    A prompt that was never seen has the prior: a Beta distribution with the mean and variance of the pass rates that
    were seen so far, of at most ``prior_size`` responses' weight; Beta(1, 1) before there are any.
    """

    forget: float = 0.9
    prior_size: float = 4.0
    _counts: dict[str, list[float]] = field(default_factory=dict, init=False)  # uid: right, wrong

    def __post_init__(self) -> None:
        if not 0 <= self.forget <= 1 or not self.prior_size > 0:
            raise ValueError(f"0 <= forget <= 1 and prior_size > 0 expected, got {self.forget} and {self.prior_size}")

    def means(self, uids: Sequence[str]) -> list[float]:
        """Posterior mean of each prompt's pass rate, from what was observed before."""
        a, b = self.prior()
        counts = [self._counts.get(uid, (0.0, 0.0)) for uid in uids]
        return [(a + right) / (a + b + right + wrong) for right, wrong in counts]

    def prior(self) -> tuple[float, float]:
        """(a, b) for a prompt that was never seen, by moments of the smoothed rates of all prompts that were."""
        if not self._counts:
            return 1.0, 1.0
        rates = np.array([(right + 0.5) / (right + wrong + 1.0) for right, wrong in self._counts.values()])
        mean, variance = float(rates.mean()), float(rates.var())
        size = mean * (1 - mean) / variance - 1 if variance > 0 else self.prior_size
        size = min(self.prior_size, max(size, 1e-3))
        return mean * size, (1 - mean) * size

    def observe(self, uid: str, right: int, wrong: int) -> None:
        """Add one visit's judged responses."""
        a, b = self._counts.get(uid, (0.0, 0.0))
        self._counts[uid] = [self.forget * a + right, self.forget * b + wrong]

    def state(self) -> dict[str, Any]:
        return {uid: list(counts) for uid, counts in self._counts.items()}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self._counts = {uid: list(counts) for uid, counts in state.items()}
