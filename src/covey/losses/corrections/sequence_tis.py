"""Sequence-level truncated importance sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.corrections.base import check_interval
from covey.losses.ratio import bounded
from covey.losses.sequence import sequence_sum
from covey.types import LossInputs


def product(log_w: torch.Tensor, inputs: LossInputs) -> torch.Tensor:
    """The product of a response's token ratios, for each of its tokens, [B, S]; bounded before exp."""
    return bounded(sequence_sum(log_w, inputs.trained, inputs.segment)).exp()


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceTIS:
    """min(product over the response, ratio_max) on all its tokens: right for responses as a whole, up to the cap.

    The product grows or shrinks with length (1.1^100 = 13781), so long responses meet the cap, or vanish, first.
    """

    ratio_max: float = 2.0
    filters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_interval(0.0, self.ratio_max)

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        return product(log_w, inputs).clamp(max=self.ratio_max)
