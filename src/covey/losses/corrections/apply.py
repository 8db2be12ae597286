"""The corrections of a run together: their product, its normalisation, and what it did."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.corrections.base import Correction
from covey.losses.ratio import log_ratio
from covey.losses.sequence import trained_per_sequence
from covey.metrics.metric import Effective, Maximum, Mean, Metric, Minimum, masked_mean
from covey.types import LossInputs

BUCKETS = (64, 256, 1024, 4096)
"""Upper ends of the length buckets, in trained tokens of a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Any number of filters and at most one correction that weighs; none at all leaves every weight at 1.

    ``normalize`` divides by the mean weight over all trained tokens of the step, after truncation.
    """

    parts: tuple[Correction, ...] = ()
    normalize: bool = False

    def __post_init__(self) -> None:
        if self.normalize and not self.parts:
            raise ValueError("there is nothing to normalise: loss.correction names no correction")
        weighing = [type(part).__name__ for part in self.parts if not getattr(part, "filters", False)]
        if len(weighing) > 1:
            raise ValueError(f"{' and '.join(weighing)} would weigh the same ratio twice; keep one of them")

    def __call__(self, inputs: LossInputs, /) -> tuple[torch.Tensor, dict[str, Metric]]:
        """Weights of the policy term, [B, S], without gradient, and what became of the tokens."""
        with torch.no_grad():
            if inputs.behavior_logp is None or not self.parts:
                return torch.ones_like(inputs.logp), {}
            weight, capped = self._weight(inputs)
            metrics = _kept_metrics(weight, capped, inputs)
            if self.normalize:
                weight = weight / (inputs.statistics["correction_mean"] or 1.0)
            return weight, metrics

    def survey(self, step: LossInputs) -> dict[str, float]:
        """The mean weight, if it is divided by."""
        if not self.normalize or step.behavior_logp is None:
            return {}
        return {"correction_mean": float(self._weight(step)[0][step.trained].double().mean())}

    def _weight(self, inputs: LossInputs) -> tuple[torch.Tensor, torch.Tensor]:
        """The product of all parts, and where one of them was cut to its cap."""
        log_w = sampler_log_ratio(inputs)
        weight, capped = torch.ones_like(log_w), torch.zeros_like(inputs.trained)
        for part in self.parts:
            found = part(log_w, inputs)
            weight = weight * found
            capped = capped | (found == getattr(part, "ratio_max", torch.inf))
        return weight, capped & (weight > 0)


def sampler_log_ratio(inputs: LossInputs) -> torch.Tensor:
    """log(pi_old / sampler) of each token, [B, S], without gradient; 0 where not trained."""
    assert inputs.behavior_logp is not None
    return log_ratio(inputs.old_logp.detach(), inputs.behavior_logp, inputs.trained)


def mismatch_metrics(log_w: torch.Tensor, inputs: LossInputs) -> dict[str, Metric]:
    """How far the sampler is from the policy before the batch; rho = pi_old / sampler. Everything 0 or 1 if equal."""
    trained = inputs.trained
    if not bool(trained.any()):
        return {}
    rho, gap = log_w.exp(), log_w.abs()
    first, whole, lengths = _per_sequence(log_w, inputs)
    return {
        "sampler/gap_max": Maximum(float(gap[trained].max())),
        "sampler/gap_mean": masked_mean(gap, trained),
        "sampler/ratio_mean": masked_mean(rho, trained),
        "sampler/ratio_min": Minimum(float(rho[trained].min())),
        "sampler/ratio_max": Maximum(float(rho[trained].max())),
        "sampler/kl_k1": masked_mean(-log_w, trained),
        "sampler/kl_k3": masked_mean(torch.expm1(log_w) - log_w, trained),
        "sampler/ppl_ratio": Mean(float((-whole / lengths).exp().double().sum()), float(first)),
        "sampler/chi2_token": masked_mean(rho.square() - 1, trained),
        "sampler/chi2_sequence": Mean(float((2 * whole).clamp(max=40).exp().double().sum()) - first, float(first)),
        "sampler/nan": masked_mean(log_w.isnan(), trained),
        "sampler/ess": Effective.of(rho[trained].double()),
    }


def _per_sequence(log_w: torch.Tensor, inputs: LossInputs) -> tuple[int, torch.Tensor, torch.Tensor]:
    """Number of sequences with trained tokens, and their summed log-ratios and lengths, one entry each."""
    ids, places = inputs.segment[inputs.trained].unique(return_inverse=True)
    sums = torch.zeros(ids.numel(), dtype=log_w.dtype, device=log_w.device)
    sums.scatter_add_(0, places, log_w[inputs.trained])
    return ids.numel(), sums, torch.bincount(places, minlength=ids.numel()).to(log_w.dtype)


def _kept_metrics(weight: torch.Tensor, capped: torch.Tensor, inputs: LossInputs) -> dict[str, Metric]:
    trained = inputs.trained
    lengths = trained_per_sequence(trained, inputs.segment)
    metrics: dict[str, Metric] = {
        "correction/weight": masked_mean(weight, trained),
        "correction/dropped": masked_mean(weight == 0, trained),
        "correction/truncated": masked_mean(capped, trained),
    }
    low = 0
    for high in (*BUCKETS, None):
        inside = trained & (lengths > low) & (lengths <= (high or lengths.max()))
        if bool(inside.any()):
            metrics[f"correction/kept/{low + 1}-{high or ''}"] = masked_mean(weight > 0, inside)
        low = high or low
    return metrics
