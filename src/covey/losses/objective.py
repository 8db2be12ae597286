"""The whole loss of a step: policy term + kl_coef * KL - entropy_coef * entropy, all aggregated in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from covey.losses.base import Aggregation, LossOutput, Surveying, TokenLoss
from covey.losses.corrections.apply import Corrections
from covey.losses.kl import KLTerm, k3, reference_log_ratio
from covey.losses.ratio import kept, ratio_metrics
from covey.metrics.metric import Mean, Metric, Sum, masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One policy loss with its correction for the sampler, its aggregation and regularisers.

    Coefficients of 0 leave a term out altogether. A correction weighs the policy term alone.
    """

    policy: TokenLoss
    aggregation: Aggregation
    kl_coef: float = 0.0
    entropy_coef: float = 0.0
    kl: KLTerm = field(default_factory=KLTerm)
    corrections: Corrections = field(default_factory=Corrections)

    def __post_init__(self) -> None:
        if getattr(self.policy, "off_policy", False) and self.corrections.parts:
            raise ValueError(
                f"{type(self.policy).__name__} weighs by the sampler's probabilities itself; a correction would do so "
                "twice. Set loss.correction = []"
            )

    @property
    def needs(self) -> frozenset[str]:
        """Streams to make: ``ref_logp``, ``kl_exact``, ``entropy`` (with gradient), ``old_logp``, ``old_entropy``."""
        in_loss = self.kl_coef != 0 and self.kl.where == "loss"
        wanted = {
            "ref_logp": self.kl_coef != 0,
            "kl_exact": in_loss and self.kl.estimator == "exact",
            "entropy": self.entropy_coef != 0,
            "old_logp": self.corrections.normalize,
        }
        return frozenset(name for name, needed in wanted.items() if needed) | getattr(self.policy, "needs", frozenset())

    @property
    def regularised(self) -> bool:
        """Whether a token without advantage matters, so that groups without contrast must be forwarded.

        It does if it has a gradient, or if other tokens are compared with it.
        """
        in_loss = self.kl_coef != 0 and self.kl.where == "loss"
        return in_loss or self.entropy_coef != 0 or self.surveys or getattr(self.policy, "pulls", False)

    @property
    def surveys(self) -> bool:
        """Whether :meth:`survey` has anything to find."""
        return self.corrections.normalize or isinstance(self.policy, Surveying)

    def survey(self, step: LossInputs) -> Mapping[str, float]:
        """What must be known of all trained tokens of the step before the first pass: see losses.base.Surveying."""
        found = self.policy.survey(step) if isinstance(self.policy, Surveying) else {}
        return {**found, **self.corrections.survey(step)}

    def __call__(self, inputs: LossInputs, /) -> LossOutput:
        term = self.policy(inputs)
        weight, weight_metrics = self.corrections(inputs)
        metrics: dict[str, Metric] = {**ratio_metrics(inputs), **weight_metrics, **term.metrics}
        values = kept(inputs, term.values) * weight
        if inputs.ref_logp is not None:
            values = values + self._divergence(inputs, metrics)
        if inputs.entropy is not None:
            metrics["entropy"] = masked_mean(inputs.entropy.detach(), inputs.trained)
            if self.entropy_coef != 0:
                values = values - self.entropy_coef * kept(inputs, inputs.entropy)
        if inputs.weight is not None:
            values = values * kept(inputs, inputs.weight)
        loss = self.aggregation(values, inputs)
        metrics["loss"] = Sum(loss.item())
        return LossOutput(loss=loss, metrics=metrics)

    def _divergence(self, inputs: LossInputs, metrics: dict[str, Metric]) -> torch.Tensor:
        """The KL term, 0 if it is only to be measured. The metric is always k3, whatever the term uses."""
        with torch.no_grad():
            measured = k3(reference_log_ratio(inputs))
            metrics["kl/ref"] = masked_mean(measured, inputs.trained)
            sequences = inputs.segment[inputs.trained].unique().numel()
            metrics["kl/ref_sequence"] = Mean(float(measured[inputs.trained].double().sum()), float(sequences))
        if self.kl_coef == 0 or self.kl.where == "reward":
            return torch.zeros_like(measured)
        return self.kl_coef * self.kl(inputs)
