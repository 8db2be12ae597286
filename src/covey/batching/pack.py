"""The layout without waste: sequences end to end, and every beginning that they share computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from covey.batching.rows import Row, fill_streams
from covey.batching.tree import grow, tree_of
from covey.types import MicroBatch


def bins(units: Sequence[Sequence[Row]], tokens_per_microbatch: int) -> list[list[Row]]:
    """Rows that share a micro-batch, of nearly equal cost: at most ``tokens_per_microbatch`` distinct tokens each.

    A group stays together, so that its prompt is computed once; one that is larger than the budget is split, down to
    single rows. As few micro-batches as the largest allows; groups go, the largest first, where there is most room.
    """
    parts = [part for unit in units for part in _split(list(unit), tokens_per_microbatch)]
    sizes = [columns(part) for part in parts]
    limit = max(tokens_per_microbatch, *sizes, 1)
    order = sorted(range(len(parts)), key=lambda i: -sizes[i])
    for count in range(-(-sum(sizes) // limit), len(parts) + 1):
        loads, places = [0] * count, [0] * len(parts)
        for i in order:
            places[i] = int(np.argmin(loads))
            loads[places[i]] += sizes[i]
        if max(loads, default=0) <= limit:
            return [[row for i, part in enumerate(parts) if places[i] == b for row in part] for b in range(count)]
    raise AssertionError("one part a bin always fits")


def columns(rows: Sequence[Row]) -> int:
    """Tokens that the model is run over for these rows."""
    return sum(branch.columns for branch in grow([row.trajectory.tokens[:-1] for row in rows]))


def _split(rows: list[Row], limit: int) -> list[list[Row]]:
    """Rows in halves, in the order of their tokens, until each part is within the limit or a single row."""
    if len(rows) == 1 or columns(rows) <= limit:
        return [rows]
    rows = sorted(rows, key=lambda row: row.trajectory.tokens.astype(">i8").tobytes())
    middle = len(rows) // 2
    return _split(rows[:middle], limit) + _split(rows[middle:], limit)


def pack_rows(rows: Sequence[Row]) -> MicroBatch:
    """One micro-batch [1, tokens of all rows] and the tree of their tokens."""
    firsts = np.cumsum([0, *(row.length for row in rows)])
    micro = fill_streams(rows, [(0, int(first)) for first in firsts[:-1]], (1, int(firsts[-1])))
    return replace(micro, tree=tree_of([row.trajectory.tokens for row in rows]))
