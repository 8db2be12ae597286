"""Sums and means over the sequence that each token belongs to, spread back over its tokens.

Sequences are found by ``segment``, not by row, so that packed rows count right; one is never split over micro-batches.
"""

from __future__ import annotations

import torch


def sequence_sum(values: torch.Tensor, trained: torch.Tensor, segment: torch.Tensor) -> torch.Tensor:
    """For each token the sum of ``values`` over the trained tokens of its sequence, [B, S]; 0 on padding."""
    ids = torch.where(segment < 0, segment.max().clamp(min=-1) + 1, segment)
    kept = torch.where(trained, values, torch.zeros((), dtype=values.dtype, device=values.device))
    sums = torch.zeros(int(ids.max()) + 1, dtype=values.dtype, device=values.device)
    sums = sums.scatter_add(0, ids.reshape(-1), kept.reshape(-1))
    return torch.where(segment < 0, torch.zeros((), dtype=values.dtype, device=values.device), sums[ids])


def trained_per_sequence(trained: torch.Tensor, segment: torch.Tensor) -> torch.Tensor:
    """Number of trained tokens of the sequence that each token belongs to, i64[B, S]; 0 on padding."""
    return sequence_sum(trained.long(), trained, segment)


def sequence_mean(values: torch.Tensor, trained: torch.Tensor, segment: torch.Tensor) -> torch.Tensor:
    """For each token the mean of ``values`` over the trained tokens of its sequence, [B, S]; 0 where there are none."""
    return sequence_sum(values, trained, segment) / trained_per_sequence(trained, segment).clamp(min=1)
