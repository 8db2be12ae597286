"""The log-ratio of two policies, safe against whatever stands in cells that are not trained."""

from __future__ import annotations

import torch

from covey.losses.sequence import sequence_mean, sequence_sum
from covey.metrics.metric import Maximum, Metric, masked_mean
from covey.types import LossInputs

LOG_RATIO_LIMIT = 20.0
"""exp(20) = 4.9e8. Beyond that float32 nears overflow, and 0 * inf in a branch nobody selected is NaN in backward."""


class _Bounded(torch.autograd.Function):
    """The value is clamped, the gradient is not: a token that is far off must not lose its way back in silence."""

    @staticmethod
    def forward(ctx: object, values: torch.Tensor) -> torch.Tensor:
        return values.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


def bounded(log_ratio: torch.Tensor) -> torch.Tensor:
    """A log-ratio within +-20, with the gradient of the unbounded one."""
    return _Bounded.apply(log_ratio)  # type: ignore[no-any-return]


def log_ratio(logp: torch.Tensor, other: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """log(pi / other) in nats, [B, S]; exactly 0 where not trained, bounded before anybody takes exp of it."""
    return bounded(torch.where(trained, logp, 0.0) - torch.where(trained, other, 0.0))


def old_log_ratio(inputs: LossInputs) -> torch.Tensor:
    """log(pi / pi_old) a token, [B, S]."""
    return log_ratio(inputs.logp, inputs.old_logp, inputs.trained)


def sequence_log_ratio(inputs: LossInputs, mean: bool) -> torch.Tensor:
    """log(pi / pi_old) of each token's whole response, [B, S]: mean or (bounded) sum over its trained tokens."""
    tokens = old_log_ratio(inputs)
    if mean:
        return sequence_mean(tokens, inputs.trained, inputs.segment)
    return bounded(sequence_sum(tokens, inputs.trained, inputs.segment))


def kept(inputs: LossInputs, stream: torch.Tensor) -> torch.Tensor:
    """A stream with 0 where not trained, whatever stood there."""
    return torch.where(inputs.trained, stream, 0.0)


def ratio_metrics(inputs: LossInputs) -> dict[str, Metric]:
    """How far this update has moved from the policy before the batch; the same for every loss."""
    with torch.no_grad():
        trained, log_rho = inputs.trained, old_log_ratio(inputs).detach()
        rho = log_rho.exp()
        return {
            "ratio/mean": masked_mean(rho, trained),
            "ratio/max": Maximum(rho[trained].max().item() if bool(trained.any()) else 0.0),
            "kl/old": masked_mean(torch.expm1(log_rho) - log_rho, trained),
        }


def clip_metrics(low: torch.Tensor, high: torch.Tensor, inputs: LossInputs) -> dict[str, Metric]:
    """Shares of trained tokens whose gradient the lower and the upper bound took away (bool [B, S] each)."""
    return {"clip/low": masked_mean(low, inputs.trained), "clip/high": masked_mean(high, inputs.trained)}
