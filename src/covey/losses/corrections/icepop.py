"""IcePop: tokens on which sampler and trainer disagree either way are dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.corrections.base import check_interval
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class IcePop:
    """rho_t where ratio_min <= rho_t <= ratio_max, else 0 (Ring-1T, arXiv 2510.18855)."""

    ratio_min: float = 0.5
    ratio_max: float = 5.0
    filters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_interval(self.ratio_min, self.ratio_max)

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        rho = log_w.exp()
        return torch.where((rho >= self.ratio_min) & (rho <= self.ratio_max), rho, 0.0)
