"""What a correction for the sampler is: weights from the ratio of the policy before the batch to the sampler.

They differ when the sampler is another engine (numerics) or samples from older weights (staleness). Weights carry no
gradient, and the denominators stay: a dropped token makes the step smaller, it does not make the others count more.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch

from covey.types import LossInputs


class Correction(Protocol):
    """``log_w`` is log(pi_old / sampler) [B, S], 0 where not trained, clamped. Returns weights [B, S], 0 = dropped.

    ``filters`` is True for a class whose weights are only 0 and 1: any number of those combines with one that weighs.
    """

    filters: ClassVar[bool]

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor: ...


def check_interval(low: float, high: float) -> None:
    """Raise ValueError unless 0 <= low < 1 < high."""
    if not 0 <= low < 1 < high:
        raise ValueError(f"bounds of a ratio, 0 <= low < 1 < high, expected, got {low} and {high}")
