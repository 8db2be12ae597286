"""A preallocated key/value cache whose rows come and go while the others stay where they are."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer


class SlotLayer(DynamicLayer):
    """One layer's keys and values, [rows, heads, columns, head], allocated once.

    All rows write their newest token into the same column. A row that began later has nothing in the columns before its
    own first; the attention mask hides them.
    """

    def __init__(self, slots: Slots) -> None:
        super().__init__()
        self.slots = slots

    def allocate(self, like: torch.Tensor, value_like: torch.Tensor) -> None:
        """Make room for all rows and columns, for keys and values shaped like these [rows, heads, columns, head]."""
        rows, columns = self.slots.capacity
        self.store = tuple(t.new_zeros(rows, t.shape[1], columns, t.shape[3]) for t in (like, value_like))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one new token a row and return all columns in use."""
        if not self.is_initialized:
            self.allocate(key_states, value_states)
        n, low, column = key_states.shape[0], self.slots.low, self.slots.column
        keys, values = self.store
        keys[:n, :, column : column + 1] = key_states
        values[:n, :, column : column + 1] = value_states
        return keys[:n, :, low : column + 1], values[:n, :, low : column + 1]

    def get_seq_length(self) -> int:
        return self.slots.column - self.slots.low


class Slots(Cache):
    """The cache of a batch in which rows are admitted and released one by one.

    ``low``: the first column in use; ``column``: the next one to write. Row r holds the columns ``start[r]`` up to
    ``column``. Rows in use are 0 .. n-1.
    """

    def __init__(self, layers: int, rows: int, columns: int) -> None:
        self.capacity = (rows, columns)
        self.low = self.column = 0
        self.start: list[int] = []
        self.held = [SlotLayer(self) for _ in range(layers)]
        super().__init__(layers=list(self.held))

    def admit(self, prefix: DynamicCache, which: int, length: int) -> None:
        """Begin a new row with the last ``length`` columns of row ``which`` of a prefilled cache."""
        row, first = len(self.start), self.column - length
        for layer, filled in zip(self.held, prefix.layers, strict=True):
            keys, values = getattr(filled, "keys", None), getattr(filled, "values", None)
            if keys is None or values is None:  # a layer that shares those of another
                continue
            if not layer.is_initialized:
                layer.allocate(keys, values)
            layer.store[0][row, :, first : self.column] = keys[which, :, -length:]
            layer.store[1][row, :, first : self.column] = values[which, :, -length:]
        self.start.append(first)
        self.low = min(self.start)

    def release(self, row: int) -> None:
        """Free a row; the last row takes its place."""
        last = len(self.start) - 1
        if row != last:
            span = slice(self.start[last], self.column)
            for store in self._stores():
                store[row, :, span] = store[last, :, span]
            self.start[row] = self.start[last]
        self.start.pop()
        self.low = min(self.start, default=self.column)

    def make_room(self, longest: int) -> None:
        """Have a free column to write and ``longest`` columns before it for a row to begin in; moves all if it must."""
        if longest <= self.column < self.capacity[1]:
            return
        used = self.column - self.low
        target = max(used, longest)
        for store in self._stores():
            kept = store[: len(self.start), :, self.low : self.column].clone()
            store[: len(self.start), :, target - used : target] = kept
        self.start = [first + target - self.column for first in self.start]
        self.column, self.low = target, target - used

    def mask(self, device: torch.device) -> torch.Tensor:
        """Which columns each row attends to in the next step, its new token too: i64[n, columns in use + 1]."""
        columns = torch.arange(self.low, self.column + 1, device=device)
        return (columns[None] >= torch.tensor(self.start, device=device)[:, None]).long()

    def _stores(self) -> list[torch.Tensor]:
        return [store for layer in self.held if layer.is_initialized for store in layer.store]
