"""REINFORCE++: rewards to go with the KL penalty in them, whitened over all tokens of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from covey.advantages.base import check_knobs, outcome_of
from covey.advantages.whiten import whiten_tokens
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforcePP:
    """A_t = sum over u >= t of gamma^(u - t) r_u, then mean 0 and std 1 over all trained tokens of the batch.

    r_u is minus the KL penalty of the token (``kl.where = "reward"``), plus the outcome at the last trained token
    (arXiv 2501.03262, section 3). No group is needed: it works with one response a prompt. ``std_ddof`` 1 is the
    sample variance, 0 the population one; implementations differ.
    """

    gamma: float = 1.0
    std_ddof: int = 1
    eps: float = 1e-8
    tolerance: float = 1e-8
    needs: ClassVar[frozenset[str]] = frozenset({"penalty"})
    smallest_group: ClassVar[int] = 1
    smallest_batch: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_knobs(eps=self.eps, tolerance=self.tolerance, std_ddof=self.std_ddof)
        if not 0 < self.gamma <= 1:
            raise ValueError(f"0 < gamma <= 1 expected, got {self.gamma}")

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        streams = [self._returns(group) for group in groups]
        return whiten_tokens(groups, streams, self.std_ddof, self.eps, self.tolerance)

    def _returns(self, group: ScoredGroup) -> list[np.ndarray]:
        masks = group.trained
        penalties = group.shaped.penalty if group.shaped is not None else None
        rows = []
        for i, (mask, outcome) in enumerate(zip(masks, outcome_of(group), strict=True)):
            rewards = np.zeros(len(mask)) if penalties is None else -np.where(mask, penalties[i], 0.0)
            if mask.any():
                rewards[np.flatnonzero(mask)[-1]] += outcome
            stream = np.zeros(len(mask))
            stream[mask] = discounted(rewards[mask], self.gamma)
            rows.append(stream)
        return rows


def discounted(rewards: np.ndarray, gamma: float) -> np.ndarray:
    """Sums to go, f64[T]: entry t is the sum over u >= t of gamma^(u - t) r_u."""
    if gamma == 1.0:
        return rewards[::-1].cumsum()[::-1]
    # In pieces short enough that gamma^-length stays far from overflow, carrying the tail of the piece behind.
    piece = max(1, int(np.log(1e100) / -np.log(gamma)))
    out, carry = np.empty_like(rewards), 0.0
    for stop in range(len(rewards), 0, -piece):
        start = max(0, stop - piece)
        powers = gamma ** np.arange(stop - start)
        sums = (rewards[start:stop] * powers)[::-1].cumsum()[::-1] / powers
        out[start:stop] = sums + carry * gamma ** np.arange(stop - start, 0, -1)
        carry = out[start]
    return out
