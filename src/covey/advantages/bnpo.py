"""BNPO: the group mean as baseline, divided by a Beta density fitted to the batch's pass rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log
from typing import ClassVar

import numpy as np

from covey.advantages.base import check_knobs, credit_each, rewards_of
from covey.errors import AdvantageError
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class BNPO:
    """A_i = (r_i - p) / Beta(p; 1 + a/3, 1 + b/3), p the group mean of 0/1 rewards (arXiv 2506.02864, eq. 12).

    (a, b) are the moments' fit of a Beta distribution to the pass rates p of the batch. Exponents (1, 1) are a plain
    baseline, (1.5, 1.5) the division by the standard deviation up to a factor of 8 / pi. This is the paper's method;
    a loss type of the same name elsewhere is a token mean. Raises AdvantageError for rewards outside [0, 1].
    """

    tolerance: float = 1e-8
    bounded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        rates = []
        for group in groups:
            present = rewards_of(group)
            present = present[~np.isnan(present)]
            if present.size and (present.min() < 0 or present.max() > 1):
                raise AdvantageError(f"BNPO takes rewards in [0, 1], got {present.tolist()}; clip or scale the reward")
            rates += [float(present.mean())] if present.size else []
        a, b = beta_moments(np.array(rates))
        return credit_each(
            groups, lambda r: (r - r.mean()) / beta_density(float(r.mean()), 1 + a / 3, 1 + b / 3), self.tolerance
        )


def beta_moments(rates: np.ndarray) -> tuple[float, float]:
    """(a, b) of the Beta distribution with the mean and population variance of ``rates``.

    (0, 0), which makes the density 1, where no Beta distribution has those moments.
    """
    if rates.size < 2:
        return 0.0, 0.0
    mean, variance = float(rates.mean()), float(rates.var())
    if not 0 < variance < mean * (1 - mean):
        return 0.0, 0.0
    size = mean * (1 - mean) / variance - 1
    return mean * size, (1 - mean) * size


def beta_density(p: float, a: float, b: float) -> float:
    """Density of Beta(a, b) at ``p`` in (0, 1)."""
    return exp(lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1) * log(p) + (b - 1) * log(1 - p))
