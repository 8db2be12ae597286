"""PKPO: unbiased credit for the best of k responses (pass@k for 0/1 rewards)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from covey.advantages.base import check_knobs, credit_each
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class PKPO:
    """A_i = n (s_i - b_i) (arXiv 2505.15201, theorem 2 and its leave-one-out variance reduction).

    s_i is the share of the max@k estimate that response i has a part in, (1 / C(n, k)) times the sum over all
    k-subsets with i of their best reward. b_i is k/n times the max@k estimate of the other n - 1 responses: it must be
    computed anew without i, because centring the s_i themselves scales the gradient by (n - k) / (n - 1), to nothing
    at k = n. The factor n makes the mean over the group estimate the gradient of max@k, so k = 1 is RLOO.
    With only k usable responses b_i is the best of the other k - 1; with fewer than k, k is their number.
    """

    k: int = 4
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_knobs(tolerance=self.tolerance)
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")

    @property
    def smallest_group(self) -> int:
        """A best of k needs k."""
        return max(2, self.k)

    def of_rewards(self, rewards: np.ndarray) -> np.ndarray:
        """Advantages f64[n] of one group's usable rewards f64[n], n >= 2."""
        n, k = rewards.size, min(self.k, rewards.size)
        baseline = np.array([k / n * max_at_k(np.delete(rewards, i), min(k, n - 1)) for i in range(n)])
        return n * (shares(rewards, k) - baseline)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        return credit_each(groups, self.of_rewards, self.tolerance)


def max_at_k(rewards: np.ndarray, k: int) -> float:
    """Unbiased estimate of the expected best of k rewards from n >= k of them; pass@k for 0/1 rewards."""
    ranked = np.sort(rewards)
    chances = [comb(i, k - 1) / comb(ranked.size, k) for i in range(ranked.size)]  # that the i-th is the best
    return float(np.dot(chances, ranked))


def shares(rewards: np.ndarray, k: int) -> np.ndarray:
    """s_i: (1 / C(n, k)) times the sum, over all k-subsets that contain i, of their best reward; f64[n].

    They add up to k times :func:`max_at_k`. For 0/1 rewards: k/n if right, else k/n times pass@(k-1) of the others.
    """
    n, order = rewards.size, np.argsort(rewards, kind="stable")
    ranked, whole = rewards[order], comb(n, k)
    best_self = np.array([comb(i, k - 1) / whole for i in range(n)]) * ranked
    # As member of a subset whose best is j > i: the other k - 2 come from the j - 1 remaining below j.
    above = np.array([comb(j - 1, k - 2) / whole if j >= 1 and k >= 2 else 0.0 for j in range(n)]) * ranked
    total = best_self + above[::-1].cumsum()[::-1] - above
    out = np.empty(n)
    out[order] = total
    return out
