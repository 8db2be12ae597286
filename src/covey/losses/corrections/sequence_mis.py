"""Sequence-level masked importance sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.corrections.base import check_interval
from covey.losses.corrections.sequence_tis import product
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceMIS:
    """The product of a response's ratios where it lies in [ratio_min, ratio_max], else 0 for all its tokens."""

    ratio_min: float = 0.0
    ratio_max: float = 3.0
    filters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_interval(self.ratio_min, self.ratio_max)

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        whole = product(log_w, inputs)
        return torch.where((whole >= self.ratio_min) & (whole <= self.ratio_max), whole, 0.0)
