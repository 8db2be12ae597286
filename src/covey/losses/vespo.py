"""VESPO: a smooth weight of the whole response's ratio, with its maximum near 1."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.base import TokenTerm
from covey.losses.ratio import kept, sequence_log_ratio
from covey.metrics.metric import masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class VESPO:
    """-sg(phi(w)) A log pi, phi(w) = w^k exp(lambda (1 - w)), w = pi(o) / pi_old(o) (arXiv 2602.10693).

    phi(1) = 1; k and lambda differ by the sign of the advantage. w is the product over the response's tokens.
    """

    k_positive: float = 2.0
    lambda_positive: float = 3.0
    k_negative: float = 3.0
    lambda_negative: float = 2.0

    def __post_init__(self) -> None:
        knobs = (self.k_positive, self.lambda_positive, self.k_negative, self.lambda_negative)
        if not all(knob >= 0 for knob in knobs):
            raise ValueError(f"exponents must not be negative, got {knobs}")

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        advantage = kept(inputs, inputs.advantage)
        weight = self.phi(sequence_log_ratio(inputs, mean=False).detach(), advantage >= 0)
        values = -weight * advantage * kept(inputs, inputs.logp)
        return TokenTerm(values=values, metrics={"vespo/weight": masked_mean(weight, inputs.trained)})

    def phi(self, log_w: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        """The weight at log-ratio ``log_w``, in logarithms so that nothing overflows."""
        k = torch.where(positive, self.k_positive, self.k_negative).to(log_w.dtype)
        lam = torch.where(positive, self.lambda_positive, self.lambda_negative).to(log_w.dtype)
        return (k * log_w + lam * (1 - log_w.exp())).exp()
