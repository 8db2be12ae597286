"""Token-level truncated importance sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.corrections.base import check_interval
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTIS:
    """min(rho_t, ratio_max): biased only beyond the cap, of bounded variance (Yao et al., 2025)."""

    ratio_max: float = 2.0
    filters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_interval(0.0, self.ratio_max)

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        return log_w.exp().clamp(max=self.ratio_max)
