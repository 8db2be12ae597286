"""Token-level masked importance sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.corrections.base import check_interval
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMIS:
    """rho_t up to ``ratio_max``, 0 beyond: an outlier is more likely a fault of numerics than a good token."""

    ratio_max: float = 2.0
    filters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_interval(0.0, self.ratio_max)

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        rho = log_w.exp()
        return torch.where(rho <= self.ratio_max, rho, 0.0)
