"""Batch statistics of advantages: mean 0 and standard deviation 1 over responses or over trained tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.advantages.base import rewards_of, signal_of, trained_of
from covey.types import CreditedGroup, ScoredGroup


def whiten(values: np.ndarray, weights: np.ndarray, ddof: int, eps: float) -> np.ndarray:
    """(x - mean) / (std + eps) of f64[n], each entry counted ``weights`` times; NaN and entries of weight 0 stay out.

    With fewer than two counted entries, or none that differ, the result is 0.
    """
    counted = ~np.isnan(values) & (weights > 0)
    total = weights[counted].sum()
    if total <= ddof:
        return np.where(counted, 0.0, np.nan)
    mean = (weights[counted] * values[counted]).sum() / total
    variance = (weights[counted] * (values[counted] - mean) ** 2).sum() / (total - ddof)
    deviation = np.sqrt(variance) + eps
    return np.where(counted, (values - mean) / deviation if deviation > 0 else 0.0, np.nan)


def whiten_responses(per_group: Sequence[np.ndarray], ddof: int = 1, eps: float = 1e-8) -> list[np.ndarray]:
    """Whiten one value a response over the whole batch."""
    flat = np.concatenate(per_group) if per_group else np.zeros(0)
    return split_like(whiten(flat, np.ones_like(flat), ddof, eps), per_group)


def split_like(flat: np.ndarray, shapes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Cut a flat array into pieces as long as those of ``shapes``."""
    return np.split(flat, np.cumsum([len(piece) for piece in shapes])[:-1]) if len(shapes) else []


def whiten_tokens(
    groups: Sequence[ScoredGroup], streams: Sequence[Sequence[np.ndarray]], ddof: int, eps: float, tolerance: float
) -> list[CreditedGroup]:
    """Whiten token streams (one f64[T] a member of each group) over all trained tokens of judged responses."""
    masks = [
        [
            trained & bool(usable)
            for trained, usable in zip(trained_of(group), ~np.isnan(rewards_of(group)), strict=True)
        ]
        for group in groups
    ]
    pairs = zip((s for rows in streams for s in rows), (m for rows in masks for m in rows), strict=True)
    picked = [stream[mask] for stream, mask in pairs]
    flat = np.concatenate(picked) if picked else np.zeros(0)
    pieces = iter(split_like(whiten(flat, np.ones_like(flat), ddof, eps), picked))
    done = []
    for group, row_masks in zip(groups, masks, strict=True):
        advantages = []
        for mask in row_masks:
            stream = np.zeros(len(mask), dtype=np.float32)
            stream[mask] = next(pieces)
            advantages.append(stream)
        done.append(CreditedGroup(scored=group, advantages=tuple(advantages), signal=signal_of(group, tolerance)))
    return done
