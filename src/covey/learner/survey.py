"""All trained tokens of a step in one row, for losses that compare a token with the others of the step."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from covey.types import LossInputs, MicroBatch, Totals


def whole_step(micro: Sequence[MicroBatch], totals: Totals) -> LossInputs:
    """Detached streams [1, N] of the step's N trained tokens, segments numbered through; logp is the old policy's.

    Needs ``old_logp`` on every micro-batch.
    """
    segments, first = [], 0
    for part in micro:
        segments.append(part.segment[part.trained] + first)
        first += int(part.segment.max()) + 1

    def row(name: str) -> torch.Tensor | None:
        parts = [getattr(part, name) for part in micro]
        if any(stream is None for stream in parts):
            return None
        return torch.cat([stream[part.trained] for stream, part in zip(parts, micro, strict=True)])[None].detach()

    old = row("old_logp")
    advantage, trained = row("advantage"), row("trained")
    if old is None or advantage is None or trained is None:
        raise ValueError("a survey of the step needs old log-probs: annotate the batch with them first")
    return LossInputs(
        logp=old,
        entropy=None,
        advantage=advantage.to(old.dtype),
        trained=trained,
        segment=torch.cat(segments)[None],
        old_logp=old,
        ref_logp=row("ref_logp"),
        totals=totals,
        behavior_logp=row("behavior_logp"),
        old_entropy=row("old_entropy"),
    )
