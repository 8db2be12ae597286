"""SAPO: a soft gate in place of the clip."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.base import TokenTerm
from covey.losses.ratio import kept, old_log_ratio
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class SAPO:
    """-(4 / tau) sigmoid(tau (rho - 1)) A, tau by the sign of A (arXiv 2511.20347, eq. 5 and 6).

    At rho = 1 the gradient is that of PPO and the value -2 A / tau, so the logged loss cannot be compared with others.
    """

    tau_positive: float = 1.0
    tau_negative: float = 1.05

    def __post_init__(self) -> None:
        if not self.tau_positive > 0 or not self.tau_negative > 0:
            raise ValueError(f"positive temperatures expected, got {self.tau_positive} and {self.tau_negative}")

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        advantage = kept(inputs, inputs.advantage)
        tau = torch.where(advantage > 0, self.tau_positive, self.tau_negative).to(advantage.dtype)
        gate = torch.sigmoid(tau * (old_log_ratio(inputs).exp() - 1))
        return TokenTerm(values=-4 / tau * gate * advantage, metrics={})
