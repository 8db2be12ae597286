"""The clipped surrogate of PPO and GRPO."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.base import TokenTerm
from covey.losses.ratio import clip_metrics, kept, old_log_ratio
from covey.metrics.metric import Metric
from covey.types import LossInputs


def check_bounds(clip_low: float, clip_high: float) -> None:
    """Raise ValueError for bounds that are no interval around a ratio of 1."""
    if not 0 < clip_low < 1 or not 0 < clip_high < float("inf"):
        raise ValueError(f"0 < clip_low < 1 and clip_high > 0 expected, got {clip_low} and {clip_high}")


def clipped(
    rho: torch.Tensor, inputs: LossInputs, clip_low: float, clip_high: float
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A), [B, S], and the shares of clipped tokens."""
    advantage = kept(inputs, inputs.advantage)
    values = -torch.minimum(rho * advantage, rho.clamp(1 - clip_low, 1 + clip_high) * advantage)
    low, high = (rho < 1 - clip_low) & (advantage < 0), (rho > 1 + clip_high) & (advantage > 0)
    return values, clip_metrics(low, high, inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOClip:
    """-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A), rho = pi / pi_old (arXiv 1707.06347, eq. 7).

    Different bounds are DAPO's "clip higher" (arXiv 2503.14476). Note what is not clipped: with A < 0 a large rho
    keeps its full gradient.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        values, metrics = clipped(old_log_ratio(inputs).exp(), inputs, self.clip_low, self.clip_high)
        return TokenTerm(values=values, metrics=metrics)
