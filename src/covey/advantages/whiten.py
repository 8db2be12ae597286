"""Batch statistics of advantages: mean 0 and standard deviation 1 over responses or over trained tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.advantages.base import is_degenerate, rewards_of, signal_of
from covey.types import CreditedGroup, ScoredGroup


def whiten(values: np.ndarray, ddof: int, eps: float, tolerance: float) -> np.ndarray:
    """(x - mean) / (std + eps) of f64[n]; NaN stays NaN and out of the statistics.

    Exactly 0 where fewer than two values are there or all agree to within ``tolerance``: dividing rounding noise by
    its own spread would make it as large as a signal.
    """
    present = values[~np.isnan(values)]
    if is_degenerate(values, tolerance):
        return np.where(np.isnan(values), np.nan, 0.0)
    return (values - present.mean()) / (present.std(ddof=ddof) + eps)


def whiten_responses(per_group: Sequence[np.ndarray], ddof: int, eps: float, tolerance: float) -> list[np.ndarray]:
    """Whiten one value a response over the whole batch."""
    flat = np.concatenate(per_group) if per_group else np.zeros(0)
    return split_like(whiten(flat, ddof, eps, tolerance), per_group)


def split_like(flat: np.ndarray, shapes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Cut a flat array into pieces as long as those of ``shapes``."""
    return np.split(flat, np.cumsum([len(piece) for piece in shapes])[:-1]) if len(shapes) else []


def whiten_tokens(
    groups: Sequence[ScoredGroup], streams: Sequence[Sequence[np.ndarray]], ddof: int, eps: float, tolerance: float
) -> list[CreditedGroup]:
    """Whiten token streams (one f64[T] a member of each group) over all trained tokens of judged responses."""
    masks = [
        [trained & bool(usable) for trained, usable in zip(group.trained, ~np.isnan(rewards_of(group)), strict=True)]
        for group in groups
    ]
    pairs = zip((s for rows in streams for s in rows), (m for rows in masks for m in rows), strict=True)
    picked = [stream[mask] for stream, mask in pairs]
    flat = np.concatenate(picked) if picked else np.zeros(0)
    pieces = iter(split_like(whiten(flat, ddof, eps, tolerance), picked))
    done = []
    for group, row_masks in zip(groups, masks, strict=True):
        advantages = []
        for mask in row_masks:
            stream = np.zeros(len(mask), dtype=np.float32)
            stream[mask] = next(pieces)
            advantages.append(stream)
        done.append(CreditedGroup(scored=group, advantages=tuple(advantages), signal=signal_of(group, tolerance)))
    return done
