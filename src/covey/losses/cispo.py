"""CISPO: the ratio is capped as a weight, so that no token loses its gradient."""

from __future__ import annotations

from dataclasses import dataclass

from covey.losses.base import TokenTerm
from covey.losses.ratio import clip_metrics, kept, old_log_ratio
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class CISPO:
    """-sg(clip(rho, ratio_min, ratio_max)) A log pi (arXiv 2506.13585, eq. 4 and 5).

    Both bounds are ratios, not distances from 1: ``ratio_max = 5.0`` means rho up to 5. The paper has no lower bound
    (0). Other systems write the same loss with 1 - low and 1 + high.
    """

    ratio_max: float = 5.0
    ratio_min: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.ratio_min < 1 or not self.ratio_max > 1:
            raise ValueError(
                f"0 <= ratio_min < 1 and ratio_max > 1 expected (they are ratios), got {self.ratio_min} and "
                f"{self.ratio_max}"
            )

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        rho = old_log_ratio(inputs).detach().exp()
        weight = rho.clamp(self.ratio_min, self.ratio_max)
        values = -weight * kept(inputs, inputs.advantage) * kept(inputs, inputs.logp)
        return TokenTerm(values=values, metrics=clip_metrics(rho < self.ratio_min, rho > self.ratio_max, inputs))
