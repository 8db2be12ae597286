"""The clipped surrogate of PPO and GRPO."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.base import TokenTerm
from covey.losses.ratio import log_ratio
from covey.metrics.metric import Maximum, masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOClip:
    """-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A), rho = pi / pi_old (arXiv 1707.06347, eq. 7).

    Different bounds are DAPO's "clip higher" (arXiv 2503.14476). Note what is not clipped: with A < 0 a large rho
    keeps its full gradient.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.clip_low < 1 or self.clip_high <= 0:
            raise ValueError(f"0 < clip_low < 1 and clip_high > 0 expected, got {self.clip_low} and {self.clip_high}")

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        trained = inputs.trained
        advantage = torch.where(trained, inputs.advantage, 0.0)
        log_rho = log_ratio(inputs.logp, inputs.old_logp, trained)
        rho = log_rho.exp()
        values = -torch.minimum(rho * advantage, rho.clamp(1 - self.clip_low, 1 + self.clip_high) * advantage)
        with torch.no_grad():
            metrics = {
                "clip/low": masked_mean((rho < 1 - self.clip_low) & (advantage < 0), trained),
                "clip/high": masked_mean((rho > 1 + self.clip_high) & (advantage > 0), trained),
                "ratio/mean": masked_mean(rho, trained),
                "ratio/max": Maximum(rho[trained].max().item() if bool(trained.any()) else 0.0),
                "kl/old": masked_mean(torch.expm1(log_rho) - log_rho, trained),
            }
        return TokenTerm(values=values, metrics=metrics)
