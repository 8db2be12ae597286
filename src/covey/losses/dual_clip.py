"""PPO clip with a ceiling on what a negative advantage can cost."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.base import TokenTerm
from covey.losses.clip import check_bounds, clipped
from covey.losses.ratio import kept, old_log_ratio
from covey.metrics.metric import masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class DualClip:
    """The clipped surrogate, for A < 0 at most ``-ratio_max`` A (arXiv 1912.09729, eq. 5).

    Plain PPO leaves a large ratio with A < 0 alone: a token that became 500 times likelier pushes 500 times as hard.
    Beyond ``ratio_max`` it has no gradient.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    ratio_max: float = 3.0

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)
        if not self.ratio_max > 1 + self.clip_high:
            raise ValueError(f"ratio_max > 1 + clip_high expected, got {self.ratio_max}")

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        rho = old_log_ratio(inputs).exp()
        values, metrics = clipped(rho, inputs, self.clip_low, self.clip_high)
        advantage = kept(inputs, inputs.advantage)
        values = torch.where(advantage < 0, torch.minimum(values, -self.ratio_max * advantage), values)
        beyond = (rho > self.ratio_max) & (advantage < 0)
        return TokenTerm(values=values, metrics={**metrics, "clip/dual": masked_mean(beyond, inputs.trained)})
