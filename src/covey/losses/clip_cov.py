"""Clip-Cov: a few tokens of high covariance lose their gradient, so that entropy falls more slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.base import TokenTerm
from covey.losses.clip import check_bounds, clipped
from covey.losses.covariance import covariance, lot, survey_means
from covey.losses.ratio import old_log_ratio
from covey.metrics.metric import masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipCov:
    """The clipped surrogate, with a random ``share`` of all tokens detached among those whose covariance of advantage
    and log-prob lies in (``cov_low``, ``cov_high``) (arXiv 2505.22617, eq. 11 and 12).

    Means, share and draw are of the whole optimizer step, under the policy before its first update.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    share: float = 2e-4
    cov_low: float = 1.0
    cov_high: float = 5.0
    needs: ClassVar[frozenset[str]] = frozenset({"old_logp"})

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)
        if not 0 <= self.share <= 1 or not self.cov_low < self.cov_high:
            raise ValueError(f"share in [0, 1] and cov_low < cov_high expected, got {self}")

    def survey(self, step: LossInputs, /) -> dict[str, float]:
        means = survey_means(step)
        eligible = self._eligible(covariance(step, means)) & step.trained
        wanted, found = self.share * int(step.trained.sum()), int(eligible.sum())
        wanted = max(1, int(wanted)) if self.share > 0 else 0
        drawn = lot(step)[eligible].sort().values
        bound = -1.0 if not wanted or not found else float(drawn[min(wanted, found) - 1])
        return {**means, "lot_bound": bound}

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        values, metrics = clipped(old_log_ratio(inputs).exp(), inputs, self.clip_low, self.clip_high)
        picked = self._eligible(covariance(inputs)) & (lot(inputs) <= inputs.statistics["lot_bound"]) & inputs.trained
        values = torch.where(picked, torch.zeros_like(values), values)
        return TokenTerm(values=values, metrics={**metrics, "clip/covariance": masked_mean(picked, inputs.trained)})

    def _eligible(self, found: torch.Tensor) -> torch.Tensor:
        return (found > self.cov_low) & (found < self.cov_high)
