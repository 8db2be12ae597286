"""GMPO: the geometric mean of clipped token ratios."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.base import TokenTerm
from covey.losses.ratio import clip_metrics, kept, old_log_ratio
from covey.losses.sequence import sequence_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class GMPO:
    """-A exp(mean over the response of the clipped log-ratios) (arXiv 2507.20673, eq. 4).

    Each token's log-ratio is clipped to -``log_low`` .. ``log_high``, only on the side where the advantage would go on
    pushing it outwards. Bounds are in nats: 0.4 is a ratio of 0.67 to 1.49. Meant for ``sequence_mean``.
    """

    log_low: float = 0.4
    log_high: float = 0.4

    def __post_init__(self) -> None:
        if not self.log_low > 0 or not self.log_high > 0:
            raise ValueError(f"positive bounds in nats expected, got {self.log_low} and {self.log_high}")

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        advantage, log_rho = kept(inputs, inputs.advantage), old_log_ratio(inputs)
        bounded = log_rho.clamp(-self.log_low, self.log_high)
        sided = torch.where(advantage > 0, torch.minimum(log_rho, bounded), torch.maximum(log_rho, bounded))
        values = -advantage * sequence_mean(sided, inputs.trained, inputs.segment).exp()
        low, high = (log_rho < -self.log_low) & (advantage < 0), (log_rho > self.log_high) & (advantage > 0)
        return TokenTerm(values=values, metrics=clip_metrics(low, high, inputs))
