"""The log-ratio of two policies, safe against whatever stands in cells that are not trained."""

from __future__ import annotations

import torch

LOG_RATIO_LIMIT = 20.0
"""exp(20) = 4.9e8. Beyond that float32 nears overflow, and 0 * inf in a branch nobody selected is NaN in backward."""


def log_ratio(logp: torch.Tensor, other: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """log(pi / other) in nats, [B, S]; exactly 0 where not trained, clamped before anybody takes exp of it."""
    difference = torch.where(trained, logp, 0.0) - torch.where(trained, other, 0.0)
    return difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
