"""The covariance of advantage and log-prob a token: tokens with a large one are what collapses the entropy."""

from __future__ import annotations

import torch

from covey.losses.ratio import kept
from covey.types import LossInputs


def survey_means(step: LossInputs) -> dict[str, float]:
    """Means over all trained tokens of the step: ``mean_advantage`` and ``mean_logp`` (old policy)."""
    trained = step.trained
    return {
        "mean_advantage": float(step.advantage[trained].double().mean()),
        "mean_logp": float(step.old_logp[trained].double().mean()),
    }


def covariance(inputs: LossInputs, means: dict[str, float] | None = None) -> torch.Tensor:
    """(A - mean A)(log pi_old - its mean), [B, S], detached (arXiv 2505.22617, eq. 9)."""
    known = inputs.statistics if means is None else means
    advantage, logp = kept(inputs, inputs.advantage).detach(), kept(inputs, inputs.old_logp).detach()
    return (advantage.double() - known["mean_advantage"]) * (logp.double() - known["mean_logp"])


def lot(inputs: LossInputs) -> torch.Tensor:
    """A number in [0, 1) for each token, [B, S], from its own log-prob and advantage alone.

    Random enough to draw tokens by, and the same however the step is split, ordered or padded.
    """
    logp = kept(inputs, inputs.old_logp).detach().double()
    advantage = kept(inputs, inputs.advantage).detach().double()
    bits = logp.view(torch.int64) ^ (advantage.view(torch.int64) >> 7)
    for shift, factor in ((33, -49064778989728563), (29, -4265267296055464877), (32, 1)):
        bits = (bits ^ ((bits >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (bits & ((1 << 52) - 1)).double() / float(1 << 52)
