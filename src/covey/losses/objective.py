"""The whole loss of a step: policy term + kl_coef * KL - entropy_coef * entropy, all aggregated in the same way."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.base import Aggregation, LossOutput, TokenLoss
from covey.losses.kl import k3
from covey.metrics.metric import Metric, Sum, masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One policy loss with its aggregation and regularisers. Coefficients of 0 leave a term out altogether."""

    policy: TokenLoss
    aggregation: Aggregation
    kl_coef: float = 0.0
    entropy_coef: float = 0.0

    @property
    def needs(self) -> frozenset[str]:
        """Streams that must be annotated before the update: ``ref_logp``, ``entropy`` (with gradient)."""
        wanted = {"ref_logp": self.kl_coef != 0, "entropy": self.entropy_coef != 0}
        return frozenset(name for name, needed in wanted.items() if needed)

    def __call__(self, inputs: LossInputs, /) -> LossOutput:
        trained = inputs.trained
        term = self.policy(inputs)
        metrics: dict[str, Metric] = dict(term.metrics)
        values = term.values
        if inputs.ref_logp is not None:
            divergence = k3(inputs.logp, inputs.ref_logp, trained)
            metrics["kl/ref"] = masked_mean(divergence.detach(), trained)
            if self.kl_coef != 0:
                values = values + self.kl_coef * divergence
        if inputs.entropy is not None:
            metrics["entropy"] = masked_mean(inputs.entropy.detach(), trained)
            if self.entropy_coef != 0:
                values = values - self.entropy_coef * torch.where(trained, inputs.entropy, 0.0)
        loss = self.aggregation(values, trained, inputs.segment, inputs.totals)
        metrics["loss"] = Sum(loss.item())
        return LossOutput(loss=loss, metrics=metrics)
