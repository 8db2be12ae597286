"""Pass rates with honest uncertainty: unbiased pass@k, Wilson and bootstrap intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A rate with its 95 % interval and the number of problems behind it."""

    value: float
    low: float
    high: float
    problems: int

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Unbiased probability that at least one of ``k`` of ``samples`` responses is right (arXiv 2107.03374, eq. 1).

    1 - C(n - c, k) / C(n, k), in exact integers. Raises ValueError when k is not in 1..n or c not in 0..n.
    """
    if not 1 <= k <= samples or not 0 <= correct <= samples:
        raise ValueError(f"1 <= k <= samples and 0 <= correct <= samples expected, got {k=}, {samples=}, {correct=}")
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def mixed_chance(rate: float, size: int) -> float:
    """Chance that a group of ``size`` has right and wrong answers at pass rate ``rate``: 1 - p^G - (1 - p)^G."""
    return 1.0 - rate**size - (1.0 - rate) ** size


def smallest_mixed(rate: float, chance: float = 0.95, largest: int = 4096) -> int:
    """Smallest group size that is mixed with at least this ``chance``; ``largest`` if none below it is."""
    return next((size for size in range(2, largest) if mixed_chance(rate, size) >= chance), largest)


def mixed_pass_rate(rate: float, size: int) -> float:
    """Expected pass rate inside groups of ``size`` that are mixed: (p - p^G) / (1 - p^G - (1 - p)^G).

    Pulled towards 1/2. The credit of a response is biased by it, the summed gradient of a filtered step is not.
    """
    return (rate - rate**size) / mixed_chance(rate, size)


def rate_at_kth_success(k: int, trials: int) -> float:
    """Unbiased pass rate where sampling stopped at the k-th success, k >= 2: (k - 1) / (N - 1) (Haldane, 1945).

    c / N of such a sample is biased upwards: at one success and p = 0.1 its mean is 0.256.
    """
    if not 2 <= k <= trials:
        raise ValueError(f"2 <= k <= trials expected, got {k} and {trials}")
    return (k - 1) / (trials - 1)


def wilson(successes: int, trials: int, z: float = 1.959963984540054) -> Estimate:
    """A proportion with the Wilson score interval, for one yes-or-no answer a problem."""
    if trials < 1:
        raise ValueError("a rate needs at least one trial")
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    return Estimate(value=rate, low=max(0.0, centre - half), high=min(1.0, centre + half), problems=trials)


def mean_over_problems(values: np.ndarray, resamples: int = 2000, seed: int = 0) -> Estimate:
    """Mean of one value a problem (f64[n]) with a percentile bootstrap over problems, not over samples.

    Samples of one problem are not independent evidence, so they are never resampled on their own. With the same
    value everywhere the interval falls back to Wilson's: a bootstrap would claim certainty.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.size < 1:
        raise ValueError("a rate needs at least one problem")
    if np.ptp(values) == 0.0:
        bound = wilson(round(float(values[0]) * values.size), values.size)
        return Estimate(value=float(values[0]), low=bound.low, high=bound.high, problems=values.size)
    picks = np.random.default_rng(seed).integers(0, values.size, size=(resamples, values.size))
    low, high = np.quantile(values[picks].mean(axis=1), [0.025, 0.975])
    return Estimate(value=float(values.mean()), low=float(low), high=float(high), problems=values.size)
