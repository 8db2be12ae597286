"""KL-Cov: tokens of the highest covariance are held near the old policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.base import TokenTerm
from covey.losses.covariance import covariance, survey_means
from covey.losses.ratio import kept, old_log_ratio
from covey.metrics.metric import masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class KLCov:
    """-rho A, plus ``coef`` |log rho| on the ``share`` of tokens with the highest covariance of advantage and log-prob
    (arXiv 2505.22617, eq. 13 and 14). Nothing is clipped.

    The share is of the whole optimizer step, at least one token, under the policy before its first update.
    """

    share: float = 2e-4
    coef: float = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"old_logp"})
    pulls: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or not self.coef >= 0:
            raise ValueError(f"share in (0, 1] and coef >= 0 expected, got {self.share} and {self.coef}")

    def survey(self, step: LossInputs, /) -> dict[str, float]:
        means = survey_means(step)
        found = covariance(step, means)[step.trained]
        top = max(1, int(self.share * found.numel()))
        return {**means, "cov_bound": float(found.topk(top).values[-1])}

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        log_rho = old_log_ratio(inputs)
        picked = (covariance(inputs) >= inputs.statistics["cov_bound"]) & inputs.trained
        values = -log_rho.exp() * kept(inputs, inputs.advantage) + torch.where(picked, self.coef * log_rho.abs(), 0.0)
        return TokenTerm(values=values, metrics={"kl_cov/share": masked_mean(picked, inputs.trained)})
