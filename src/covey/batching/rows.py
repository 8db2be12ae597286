"""From credited groups to the sequences that are trained on, before they are laid out in micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from covey.advantages.base import rewards_of
from covey.types import CreditedGroup, MicroBatch, ScoredGroup, Totals, Trajectory


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


def step_rows(
    groups: Sequence[CreditedGroup], keep_silent: bool = False, equal_prompts: bool = False
) -> tuple[list[list[Row]], Totals]:
    """The step's judged responses that have a token in the loss, group by group, and their denominators.

    Groups whose advantages are all 0 are left out unless ``keep_silent``: a KL or entropy term, and some losses, have
    a gradient there too. They count in the totals either way. ``equal_prompts`` weighs responses by (mean group size /
    size of their group), so that a prompt counts once however many were drawn for it.
    """
    per_group = [group_rows(group) for group in groups]
    totals = Totals(
        tokens=sum(rows[0].group_tokens for rows in per_group if rows),
        sequences=sum(len(rows) for rows in per_group),
        groups=sum(bool(rows) for rows in per_group),
    )
    kept: list[list[Row]] = []
    for group, found in zip(groups, per_group, strict=True):
        if found and (keep_silent or any(stream.any() for stream in group.advantages)):
            share = totals.sequences / (totals.groups * len(found)) if equal_prompts else 1.0
            kept.append([replace(row, weight=row.weight * share) for row in found])
    return kept, totals


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


def bare_rows(group: ScoredGroup) -> list[Row]:
    """All members of a group, with every sampled token and no advantage: to measure log-probs on."""
    return [
        Row(trajectory=member, trained=member.sampled, advantage=np.zeros(len(member.tokens), dtype=np.float32))
        for member in group.group.members
    ]


def fill_streams(rows: Sequence[Row], starts: Sequence[tuple[int, int]], shape: tuple[int, int]) -> MicroBatch:
    """Streams [B, S] with row number i's tokens from cell ``starts[i]`` = (b, t) on, as segment i.

    Masks come from lengths, never from token ids: a pad id may be an end id.
    """
    tokens, group_tokens = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    positions, segment = np.zeros(shape, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
    attended, trained = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    advantage, weight = np.zeros(shape, dtype=np.float32), np.ones(shape, dtype=np.float32)
    temperature = np.ones(shape, dtype=np.float32)
    behavior, ref = np.full(shape, np.nan, dtype=np.float32), np.full(shape, np.nan, dtype=np.float32)
    for i, (row, (line, first)) in enumerate(zip(rows, starts, strict=True)):
        span = np.s_[line, first : first + row.length]
        tokens[span], attended[span], trained[span] = row.trajectory.tokens, True, row.trained
        positions[span], segment[span] = np.arange(row.length), i
        advantage[span], behavior[span] = row.advantage, row.trajectory.logp
        weight[span], group_tokens[span], temperature[span] = row.weight, row.group_tokens, row.trajectory.temperature
        if row.ref_logp is not None:
            ref[span] = row.ref_logp
    streams = {
        "tokens": tokens,
        "attended": attended,
        "positions": positions,
        "segment": segment,
        "trained": trained,
        "advantage": advantage,
        "behavior_logp": behavior,
        "temperature": temperature,
        "weight": weight,
        "group_tokens": group_tokens,
    }
    if any(row.ref_logp is not None for row in rows):
        streams["ref_logp"] = ref
    return MicroBatch(**{name: torch.from_numpy(stream) for name, stream in streams.items()}, tree=None)
