"""REINFORCE++ with a group baseline: centred in the group, whitened over all tokens of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey.advantages.base import check_knobs, rewards_of
from covey.advantages.whiten import whiten_tokens
from covey.types import CreditedGroup, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforcePPBaseline:
    """A_i = (r_i - mean of the group - m) / (s + eps); m, s over all trained tokens of the batch (arXiv 2501.03262).

    As responses differ in length, m is not 0, so a group whose rewards are equal gets -m / s and not 0. It is
    trained on, and its signal still says that its siblings agree. A lone response is its own mean.
    """

    std_ddof: int = 1
    eps: float = 1e-8
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_knobs(eps=self.eps, tolerance=self.tolerance, std_ddof=self.std_ddof)

    def __call__(self, groups: Sequence[ScoredGroup], /) -> list[CreditedGroup]:
        streams = []
        for group in groups:
            rewards = rewards_of(group)
            present = rewards[~np.isnan(rewards)]
            centred = rewards - (present.mean() if present.size else 0.0)
            centred[np.abs(centred) <= self.tolerance] = 0.0
            streams.append([np.where(mask, value, 0.0) for mask, value in zip(group.trained, centred, strict=True)])
        return whiten_tokens(groups, streams, self.std_ddof, self.eps, self.tolerance)
