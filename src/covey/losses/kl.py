"""Estimators of KL(policy, reference) per token (J. Schulman, "Approximating KL divergence", 2020)."""

from __future__ import annotations

import torch

from covey.losses.ratio import log_ratio


def k3(logp: torch.Tensor, ref_logp: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """exp(-L) - 1 + L with L = logp - ref_logp, [B, S], 0 where not trained.

    Never negative and unbiased as a value. As a loss its gradient on policy is that of KL(reference, policy), the
    forward divergence (GRPO uses it so, arXiv 2402.03300, eq. 4).
    """
    difference = log_ratio(logp, ref_logp, trained)
    return torch.expm1(-difference) + difference
