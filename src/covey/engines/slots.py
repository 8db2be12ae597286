"""A key/value cache in which responses to one prompt share the prompt's keys and values, and rows come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

COLUMNS = 64
"""Room for new tokens at the beginning; it doubles whenever it is full, up to the longest answer."""


class SlotLayer(DynamicLayer):
    """One layer: of prompts [prompts, heads, width, head], padded on the left; of rows [rows, heads, columns, head]."""

    step: Step  # of the pass that is on

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.prompts: tuple[torch.Tensor, ...] = ()  # keys and values
        self.own: tuple[torch.Tensor, ...] = ()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one new token a row, behind those it has, and return what rows have of their own."""
        step, found = self.step, []
        for store, new in zip(self.own, (key_states, value_states), strict=True):
            if step.level:
                store[: len(step.rows), :, step.columns - 1] = new[:, :, 0]
            else:
                store[step.rows, :, step.added] = new[:, :, 0]
            found.append(store[: len(step.rows), :, : step.columns])
        return found[0], found[1]

    def get_seq_length(self) -> int:
        return 0

    def join(self, keys: torch.Tensor, values: torch.Tensor, kept: list[int], width: int, rows: int) -> None:
        """Have prompts ``kept`` and these [new, heads, width, head] behind them, and room for ``rows`` rows."""
        pairs = zip(self.prompts or (keys[:0], values[:0]), (keys, values), strict=True)
        self.prompts = tuple(torch.cat([_widened(old[kept], width), _widened(new, width)]) for old, new in pairs)
        if not self.own:
            columns = min(COLUMNS, self.longest)
            self.own = tuple(t.new_zeros(rows, t.shape[1], columns, t.shape[3]) for t in (keys, values))
        self.is_initialized = True

    def grow(self) -> None:
        """Room for twice the columns."""
        columns = self.own[0].shape[2]
        more = min(columns, self.longest - columns)
        self.own = tuple(torch.nn.functional.pad(store, (0, 0, 0, more)) for store in self.own)

    def move(self, source: int, target: int, columns: int) -> None:
        """Row ``target`` becomes what row ``source`` is."""
        for store in self.own:
            store[target, :, :columns] = store[source, :, :columns]


def _widened(store: torch.Tensor, width: int) -> torch.Tensor:
    return torch.nn.functional.pad(store, (0, 0, width - store.shape[2], 0))


@dataclass(slots=True)
class Step:
    """What the pass that adds a token to each of n rows needs to know; most of it lasts until rows join or leave."""

    prompts: int
    rows: torch.Tensor  # i64[n]: 0 .. n-1
    seat: torch.Tensor  # i64[n]: place in [prompts * seats]
    seats: int  # rows of the prompt that has most
    length: torch.Tensor  # i64[n]: tokens of its prompt
    added: torch.Tensor  # i64[n]: tokens of its own before this pass
    level: bool  # whether all rows have as many
    columns: int  # own columns in use, with the new one
    width: int  # prompt columns
    masks: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def seated(self, values: torch.Tensor) -> torch.Tensor:
        """From rows [n, heads, m, c] to prompts [prompts, heads, seats * m, c]: all rows of one side by side."""
        prompts, (_, heads, m, c) = self.prompts, values.shape
        placed = values.new_zeros(prompts * self.seats, heads, m, c).index_copy_(0, self.seat, values)
        return placed.view(prompts, self.seats, heads, m, c).transpose(1, 2).reshape(prompts, heads, -1, c)

    def risen(self, values: torch.Tensor) -> torch.Tensor:
        """The way back."""
        prompts, heads, _, c = values.shape
        split = values.view(prompts, heads, self.seats, -1, c).transpose(1, 2)
        return split.reshape(prompts * self.seats, heads, -1, c).index_select(0, self.seat)

    def mask(self, window: int | None) -> torch.Tensor:
        """What each row sees of prompt and own columns: 0 or -inf, f32[n, 1, 1, width + columns]."""
        if window not in self.masks:
            device = self.seat.device
            begin = self.width - self.length[:, None]
            place = torch.arange(self.width + self.columns, device=device)[None] - begin  # of own: length + column
            here = (self.length + self.added)[:, None]
            seen = (place >= 0) & (place <= here)
            if window is not None:
                seen &= place > here - window
            self.masks[window] = torch.where(seen, 0.0, -torch.inf)[:, None, None]
        return self.masks[window]


class Slots(Cache):
    """The cache of a batch. Prompts are known by a key; row r answers one of them and has ``added[r]`` tokens.

    There are at most ``rows`` rows of at most ``longest`` tokens.
    """

    def __init__(self, layers: int, rows: int, longest: int) -> None:
        self.rows = rows
        self.lengths: dict[bytes, int] = {}  # of prompts that are kept, in the order of the store
        self.prompt: list[bytes] = []  # of each row
        self.added: list[int] = []
        self.held = [SlotLayer(longest) for _ in range(layers)]
        self.step: Step
        super().__init__(layers=list(self.held))

    def join(self, prompts: Sequence[tuple[bytes, int]], filled: DynamicCache, needed: Collection[bytes]) -> None:
        """Take in prompts (key, tokens), prefilled with padding on the left; forget those that are not ``needed``."""
        kept = [place for place, key in enumerate(self.lengths) if key in needed]
        self.lengths = {key: length for key, length in self.lengths.items() if key in needed} | dict(prompts)
        width = max(self.lengths.values())
        for layer, new in zip(self.held, filled.layers, strict=True):
            keys, values = (t[:, :, -width:] for t in (new.keys, new.values))  # type: ignore[attr-defined]
            layer.join(keys, values, kept, width, self.rows)

    def admit(self, prompt: bytes) -> None:
        """A new row."""
        self.prompt.append(prompt)
        self.added.append(0)

    def release(self, row: int) -> None:
        """Free a row; the last row takes its place."""
        last = len(self.added) - 1
        if row != last:
            for layer in self.held:
                layer.move(last, row, self.added[last])
            self.prompt[row], self.added[row] = self.prompt[last], self.added[last]
        self.prompt.pop()
        self.added.pop()

    def begin(self, changed: bool, device: torch.device) -> None:
        """Prepare the pass that adds a token to every row; ``changed``: rows have joined or left since the last."""
        columns = max(self.added) + 1
        if columns > self.held[0].own[0].shape[2]:
            for layer in self.held:
                layer.grow()
        if changed:
            self.step = self._laid_out(columns, device)
            for layer in self.held:
                layer.step = self.step
        else:
            step = self.step
            step.added, step.columns, step.masks = step.added + 1, columns, {}
        self.added = [count + 1 for count in self.added]

    def _laid_out(self, columns: int, device: torch.device) -> Step:
        order = {key: place for place, key in enumerate(self.lengths)}
        seats, taken, seat = max(Counter(self.prompt).values()), Counter[bytes](), []
        for key in self.prompt:
            seat.append(order[key] * seats + taken[key])
            taken[key] += 1
        return Step(
            prompts=len(order),
            rows=torch.arange(len(seat), device=device),
            seat=torch.tensor(seat, device=device),
            seats=seats,
            length=torch.tensor([self.lengths[key] for key in self.prompt], device=device),
            added=torch.tensor(self.added, device=device),
            level=min(self.added) == max(self.added),
            columns=columns,
            width=max(self.lengths.values()),
        )
