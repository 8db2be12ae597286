"""Off-policy sequence masking: wrong answers that the policy would hardly give any more are left alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.ratio import kept, log_ratio
from covey.losses.sequence import sequence_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class OPSM:
    """0 for tokens with A < 0 whose response's mean log(sampler / pi) exceeds ``delta``, else 1.

    DeepSeek-V3.2, eq. 9. pi is the current policy, so in repeated updates a response may be dropped later on.
    """

    delta: float = 0.1
    filters: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise ValueError(f"delta must be positive, got {self.delta}")

    def __call__(self, log_w: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        # log(sampler / pi) = log(pi_old / pi) - log(pi_old / sampler)
        gone = log_ratio(inputs.old_logp, inputs.logp.detach(), inputs.trained) - log_w
        far = sequence_mean(gone, inputs.trained, inputs.segment) > self.delta
        return torch.where(far & (kept(inputs, inputs.advantage) < 0), 0.0, 1.0).to(log_w.dtype)
