"""Hybrid baseline: the siblings' mean shrunk towards the mean of the other prompts, as far as the data say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from covey.advantages.base import check_knobs, credited, rewards_of
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """A_i = r_i - (1 - lam) LOO_i - lam mu, lam by empirical Bayes from the other prompts of the batch.

    LOO_i is the mean of the other siblings, mu the mean over the other prompts' means. With s2 their mean sample
    variance and n the group's size: lam = v / (v + tau2), v = s2 / (n - 1) the variance of a leave-one-out mean,
    tau2 = max(0, variance of the other prompts' means - what sampling adds to it). James-Stein shrinkage
    (arXiv 2511.03710), with moments in place of its q, which still contains the sampling noise.

    lam and mu do not depend on the prompt's own rewards, so the gradient stays unbiased. A lone response has lam = 1:
    REINFORCE against the batch. With fewer than two other prompts nothing can be estimated and lam is 0.
    Siblings that agree still have an advantage where mu differs from them.
    """

    tolerance: float = 1e-8
    smallest_group: ClassVar[int] = 1
    smallest_batch: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        rewards = [rewards_of(group) for group in groups]
        sizes, means, variances = moments(rewards)
        done = []
        for i, (group, values) in enumerate(zip(groups, rewards, strict=True)):
            others = (np.arange(len(groups)) != i) & (sizes > 0)
            mean = float(means[others].mean()) if others.any() else None
            lam = shrinkage(int(sizes[i]), *spread(sizes[others], means[others], variances[others]))
            done.append(credited(group, against(values, lam, mean, self.tolerance), self.tolerance))
        return done


def moments(rewards: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Usable count, mean and sample variance of each group, f64[P]; NaN where they do not exist."""
    usable = [values[~np.isnan(values)] for values in rewards]
    sizes = np.array([values.size for values in usable])
    means = np.array([values.mean() if values.size else np.nan for values in usable])
    variances = np.array([values.var(ddof=1) if values.size > 1 else np.nan for values in usable])
    return sizes, means, variances


def spread(sizes: np.ndarray, means: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """Variance within prompts and between their true means (method of moments), NaN where not estimable."""
    known = ~np.isnan(variances)
    within = float(variances[known].mean()) if known.any() else np.nan
    if known.sum() < 2:
        return within, np.nan
    noise = float((variances[known] / sizes[known]).mean())
    return within, max(0.0, float(means[known].var(ddof=1)) - noise)


def shrinkage(size: int, within: float, between: float) -> float:
    """lam in [0, 1]: 1 for a lone response, 0 where nothing is known or nothing varies."""
    if size <= 1:
        return 1.0
    noise = within / (size - 1)
    return float(noise / (noise + between)) if noise + between > 0 else 0.0  # false for NaN too


def against(values: np.ndarray, lam: float, mean: float | None, tolerance: float) -> np.ndarray:
    """Rewards less their mixed baseline, f64[G]; exactly 0 where the difference is within ``tolerance``."""
    difference = values - mixed_baseline(values, lam, mean)
    return np.where(np.abs(difference) <= tolerance, 0.0, difference)


def mixed_baseline(values: np.ndarray, lam: float, mean: float | None) -> np.ndarray:
    """(1 - lam) leave-one-out mean + lam ``mean``, f64[G]; without a mean, the leave-one-out mean alone.

    NaN, which credits nothing, for a lone response where there is no mean either.
    """
    present = ~np.isnan(values)
    n = int(present.sum())
    others = (values[present].sum() - values) / (n - 1) if n > 1 else np.full_like(values, np.nan)
    if mean is None:
        return others
    return mean + (1 - lam) * (others - mean) if n > 1 else np.full_like(values, mean)
