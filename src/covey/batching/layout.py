"""Stage 7: credited groups become micro-batches, in one of two layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from covey.batching.pack import bins, pack_rows
from covey.batching.pad import pad_rows, shelves
from covey.batching.rows import Row, step_rows
from covey.types import CreditedGroup, MicroBatch, StepBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How rows are dealt to micro-batches of so many tokens, and how one is filled with its rows."""

    parted: Callable[[Sequence[Sequence[Row]], int], list[list[Row]]]
    filled: Callable[[Sequence[Row]], MicroBatch]

    def __call__(
        self,
        groups: Sequence[CreditedGroup],
        tokens_per_microbatch: int,
        keep_silent: bool = False,
        equal_prompts: bool = False,
    ) -> StepBatch:
        """Lay a step out. Which responses take part, and how they weigh: :func:`covey.batching.rows.step_rows`."""
        units, totals = step_rows(groups, keep_silent, equal_prompts)
        micro = tuple(self.filled(rows) for rows in self.parted(units, tokens_per_microbatch))
        return StepBatch(micro=micro, totals=totals)


pad = Layout(parted=shelves, filled=pad_rows)
"""One response a row, filled up on the right: the plain layout, which every model takes."""

pack = Layout(parted=bins, filled=pack_rows)
"""Responses end to end, and every beginning that they share computed once."""

LAYOUTS: Mapping[str, Layout] = {"packed": pack, "padded": pad}
