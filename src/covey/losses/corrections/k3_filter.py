"""Drops responses whose mean divergence from the sampler is large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.sequence import sequence_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class K3Filter:
    """1 where the response's mean of rho - 1 - log rho is at most ``kl_max`` (nats a token), else 0.

    Unlike a mean log-ratio, deviations up and down do not cancel.
    """

    kl_max: float = 0.01
    filters: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.kl_max > 0:
            raise ValueError(f"kl_max must be positive, got {self.kl_max}")

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        divergence = sequence_mean(torch.expm1(log_w) - log_w, inputs.trained, inputs.segment)
        return (divergence <= self.kl_max).to(log_w.dtype)
