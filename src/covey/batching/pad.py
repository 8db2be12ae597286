"""Stage 7: credited groups become micro-batches of padded rows, one response a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from covey.types import CreditedGroup, MicroBatch, StepBatch, Totals, Trajectory

Row = tuple[Trajectory, np.ndarray]
"""A trajectory with its advantages f32[T]."""


def count_totals(groups: Sequence[CreditedGroup]) -> Totals:
    """Denominators of the step: every judged response counts, also where its advantage is 0."""
    judged = [_judged_rows(group) for group in groups]
    rows = [trajectory for group in judged for trajectory, _ in group]
    return Totals(
        tokens=sum(trajectory.sampled_tokens for trajectory in rows),
        sequences=len(rows),
        groups=sum(bool(group) for group in judged),
    )


def pad(groups: Sequence[CreditedGroup], tokens_per_microbatch: int, keep_silent: bool = False) -> StepBatch:
    """Lay the step's judged responses out in right-padded rows, at most ``tokens_per_microbatch`` cells a micro-batch.

    Groups without signal are left out, because all their advantages are 0, unless ``keep_silent``: a KL or entropy
    term has a gradient there too. They count in the totals either way, so leaving them out changes no number.
    A row longer than the budget gets a micro-batch of its own. Rows are sorted by length to save padding.
    """
    rows = [row for group in groups if keep_silent or group.signal == "ok" for row in _judged_rows(group)]
    rows.sort(key=lambda row: len(row[0].tokens), reverse=True)
    micro, start = [], 0
    while start < len(rows):
        width = len(rows[start][0].tokens)
        count = max(1, tokens_per_microbatch // width)
        micro.append(pad_rows(rows[start : start + count], width))
        start += count
    return StepBatch(micro=tuple(micro), totals=count_totals(groups))


def _judged_rows(group: CreditedGroup) -> list[Row]:
    scored = group.scored
    members = zip(scored.group.members, scored.scores, group.advantages, strict=True)
    return [(member, advantage) for member, score, advantage in members if score.total is not None]


def pad_rows(rows: Sequence[Row], width: int) -> MicroBatch:
    """One micro-batch [len(rows), width]. Masks come from lengths, never from token ids: a pad id may be an end id."""
    shape = (len(rows), width)
    tokens = np.zeros(shape, dtype=np.int64)
    attended, trained = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    advantage = np.zeros(shape, dtype=np.float32)
    behavior = np.full(shape, np.nan, dtype=np.float32)
    for i, (trajectory, values) in enumerate(rows):
        span = np.s_[i, : len(trajectory.tokens)]
        tokens[span], attended[span], trained[span] = trajectory.tokens, True, trajectory.sampled
        advantage[span], behavior[span] = values, trajectory.logp
    segment = np.where(attended, np.arange(len(rows))[:, None], -1)
    positions = np.where(attended, np.arange(width)[None], 0)
    return MicroBatch(
        tokens=torch.from_numpy(tokens),
        attended=torch.from_numpy(attended),
        positions=torch.from_numpy(positions),
        segment=torch.from_numpy(segment),
        trained=torch.from_numpy(trained),
        advantage=torch.from_numpy(advantage),
        behavior_logp=torch.from_numpy(behavior),
    )
