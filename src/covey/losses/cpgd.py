"""CPGD: clips the log-ratio and never multiplies by the ratio; a drift term holds the policy near the old one."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import ClassVar

import torch

from covey.losses.base import TokenTerm
from covey.losses.clip import check_bounds
from covey.losses.ratio import clip_metrics, kept, old_log_ratio
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class CPGD:
    """-min(A L, A clip(L, ln(1 - clip_low), ln(1 + clip_high))) + drift_coef k3, L = log(pi / pi_old).

    arXiv 2505.12504: the gradient of the first part is A or 0, whatever the ratio is. The drift is KL(pi_old, pi),
    estimated by rho - 1 - L on samples of the old policy.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    drift_coef: float = 0.01
    pulls: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)
        if not self.drift_coef >= 0:
            raise ValueError(f"drift_coef must not be negative, got {self.drift_coef}")

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        advantage, log_rho = kept(inputs, inputs.advantage), old_log_ratio(inputs)
        low, high = log1p(-self.clip_low), log1p(self.clip_high)
        values = -torch.minimum(advantage * log_rho, advantage * log_rho.clamp(low, high))
        values = values + self.drift_coef * (torch.expm1(log_rho) - log_rho)
        metrics = clip_metrics((log_rho < low) & (advantage < 0), (log_rho > high) & (advantage > 0), inputs)
        return TokenTerm(values=values, metrics=metrics)
