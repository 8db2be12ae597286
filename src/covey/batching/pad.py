"""The plain layout: one response a row, filled up on the right to the longest."""

from __future__ import annotations

from collections.abc import Sequence

from covey.batching.rows import Row, fill_streams
from covey.types import MicroBatch


def shelves(units: Sequence[Sequence[Row]], tokens_per_microbatch: int) -> list[list[Row]]:
    """Rows that share a micro-batch of at most ``tokens_per_microbatch`` cells, longest first to save padding.

    A row longer than the budget gets a micro-batch of its own.
    """
    rows = sorted((row for unit in units for row in unit), key=lambda row: row.length, reverse=True)
    found, start = [], 0
    while start < len(rows):
        count = max(1, tokens_per_microbatch // rows[start].length)
        found.append(rows[start : start + count])
        start += count
    return found


def pad_rows(rows: Sequence[Row]) -> MicroBatch:
    """One micro-batch [len(rows), longest row]."""
    starts = [(line, 0) for line in range(len(rows))]
    return fill_streams(rows, starts, (len(rows), max(row.length for row in rows)))
