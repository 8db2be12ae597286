"""Drops responses whose mean log-ratio is far from 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.corrections.base import check_interval
from covey.losses.sequence import sequence_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometric:
    """1 where exp(mean log rho of the response) lies in [ratio_min, ratio_max], else 0; does not depend on length."""

    ratio_min: float = 0.999
    ratio_max: float = 1.001
    filters: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_interval(self.ratio_min, self.ratio_max)

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        ratio = sequence_mean(log_w, inputs.trained, inputs.segment).exp()
        return ((ratio >= self.ratio_min) & (ratio <= self.ratio_max)).to(log_w.dtype)
