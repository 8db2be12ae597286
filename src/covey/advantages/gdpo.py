"""GDPO: every reward part normalised in its group by itself, then their weighted sum normalised over the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from covey.advantages.base import check_knobs, credited, is_degenerate, rewards_of, usable_rewards
from covey.advantages.whiten import whiten_responses
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class GDPO:
    """z_k = (r_k - mean) / (std + eps) a part, A = whiten(sum of w_k z_k) over responses (arXiv 2601.05242).

    Rewards that differ in how they are made up stay different, where the sum of the parts is equal. Weights are those
    of ``reward.parts``. A part that is missing for some siblings is normalised over the others; a response that lacks
    a part it is judged by has no total, and leaves. A part on which all agree adds exactly 0. Shaping of the total
    (clipping, KL in the reward) does not reach the parts.
    """

    std_ddof: int = 1
    eps: float = 1e-4
    tolerance: float = 1e-8
    ignores_total: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_knobs(eps=self.eps, tolerance=self.tolerance, std_ddof=self.std_ddof)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        sums = [self._weighted(group) for group in groups]
        whitened = whiten_responses(sums, self.std_ddof, self.eps, self.tolerance)
        silent = [not np.nan_to_num(values).any() for values in sums]
        done = []
        for group, values, quiet in zip(groups, whitened, silent, strict=True):
            found = credited(group, np.zeros_like(values) if quiet else values, self.tolerance)
            done.append(found if quiet else replace(found, signal="ok"))  # parts may differ where totals do not
        return done

    def _weighted(self, group: ScoredGroup) -> np.ndarray:
        total = np.where(np.isnan(rewards_of(group)), np.nan, 0.0)
        for name in dict.fromkeys(name for score in group.scores for name in score.parts):
            values = usable_rewards([score.parts.get(name) for score in group.scores])
            values[np.isnan(total)] = np.nan
            if is_degenerate(values, self.tolerance):
                continue
            present = values[~np.isnan(values)]
            z = (values - present.mean()) / (present.std(ddof=self.std_ddof) + self.eps)
            total += group.weights.get(name, 1.0) * np.nan_to_num(z)
        return total
