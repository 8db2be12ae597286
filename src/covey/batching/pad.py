"""Stage 7: credited groups become micro-batches of padded rows, one response a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from covey.advantages.base import rewards_of
from covey.types import CreditedGroup, MicroBatch, ScoredGroup, StepBatch, Totals, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One trajectory on its way into a micro-batch, with what holds for all its tokens."""

    trajectory: Trajectory
    trained: np.ndarray  # bool[T]
    advantage: np.ndarray  # f32[T]
    ref_logp: np.ndarray | None = None  # f32[T]
    weight: float = 1.0
    group_tokens: int = 0  # trained tokens of all rows of its group

    @property
    def length(self) -> int:
        return len(self.trajectory.tokens)


def group_rows(group: CreditedGroup) -> list[Row]:
    """The judged responses of a group that have a token in the loss."""
    scored, masks = group.scored, group.scored.trained
    usable = ~np.isnan(rewards_of(scored))
    chosen = [i for i, mask in enumerate(masks) if usable[i] and mask.any()]
    tokens = sum(int(masks[i].sum()) for i in chosen)
    refs = scored.shaped.ref_logp if scored.shaped is not None else None
    return [
        Row(
            trajectory=scored.group.members[i],
            trained=masks[i],
            advantage=group.advantages[i] * np.float32(scored.group.scale),
            ref_logp=None if refs is None else refs[i],
            group_tokens=tokens,
        )
        for i in chosen
    ]


def _totals(per_group: Sequence[Sequence[Row]]) -> Totals:
    return Totals(
        tokens=sum(rows[0].group_tokens for rows in per_group if rows),
        sequences=sum(len(rows) for rows in per_group),
        groups=sum(bool(rows) for rows in per_group),
    )


def pad(
    groups: Sequence[CreditedGroup],
    tokens_per_microbatch: int,
    keep_silent: bool = False,
    equal_prompts: bool = False,
) -> StepBatch:
    """Lay the step's judged responses out in right-padded rows, at most ``tokens_per_microbatch`` cells a micro-batch.

    Groups whose advantages are all 0 are left out unless ``keep_silent``: a KL or entropy term, and some losses, have
    a gradient there too. They count in the totals either way. ``equal_prompts`` weighs responses by (mean group size /
    size of their group), so that a prompt counts once however many were drawn for it. A row longer than the budget gets
    a micro-batch of its own. Rows are sorted by length to save padding.
    """
    per_group = [group_rows(group) for group in groups]
    totals = _totals(per_group)
    rows: list[Row] = []
    for group, found in zip(groups, per_group, strict=True):
        if found and (keep_silent or any(stream.any() for stream in group.advantages)):
            share = totals.sequences / (totals.groups * len(found)) if equal_prompts else 1.0
            rows += [replace(row, weight=row.weight * share) for row in found]
    rows.sort(key=lambda row: row.length, reverse=True)
    micro, start = [], 0
    while start < len(rows):
        count = max(1, tokens_per_microbatch // rows[start].length)
        micro.append(pad_rows(rows[start : start + count], rows[start].length))
        start += count
    return StepBatch(micro=tuple(micro), totals=totals)


def bare_rows(groups: Sequence[ScoredGroup]) -> list[Row]:
    """All members of all groups, in order, with every sampled token and no advantage: to measure log-probs on."""
    return [
        Row(trajectory=member, trained=member.sampled, advantage=np.zeros(len(member.tokens), dtype=np.float32))
        for group in groups
        for member in group.group.members
    ]


def pad_rows(rows: Sequence[Row], width: int) -> MicroBatch:
    """One micro-batch [len(rows), width]. Masks come from lengths, never from token ids: a pad id may be an end id."""
    shape = (len(rows), width)
    tokens, group_tokens = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    attended, trained = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    advantage, weight = np.zeros(shape, dtype=np.float32), np.ones(shape, dtype=np.float32)
    temperature = np.ones(shape, dtype=np.float32)
    behavior, ref = np.full(shape, np.nan, dtype=np.float32), np.full(shape, np.nan, dtype=np.float32)
    for i, row in enumerate(rows):
        span = np.s_[i, : row.length]
        tokens[span], attended[span], trained[span] = row.trajectory.tokens, True, row.trained
        advantage[span], behavior[span] = row.advantage, row.trajectory.logp
        weight[span], group_tokens[span], temperature[span] = row.weight, row.group_tokens, row.trajectory.temperature
        if row.ref_logp is not None:
            ref[span] = row.ref_logp
    streams = {
        "tokens": tokens,
        "attended": attended,
        "positions": np.where(attended, np.arange(width)[None], 0),
        "segment": np.where(attended, np.arange(len(rows))[:, None], -1),
        "trained": trained,
        "advantage": advantage,
        "behavior_logp": behavior,
        "temperature": temperature,
        "weight": weight,
        "group_tokens": group_tokens,
    }
    if any(row.ref_logp is not None for row in rows):
        streams["ref_logp"] = ref
    return MicroBatch(**{name: torch.from_numpy(stream) for name, stream in streams.items()})
