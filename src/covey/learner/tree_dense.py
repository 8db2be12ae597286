"""Attention over a tree by a mask: for GPUs with FlexAttention, elsewhere with the mask written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

Sees = Callable[..., torch.Tensor]
"""Whether query column q sees key column k: (batch, head, q, k) -> bool, FlexAttention's signature."""


class Dense:
    """A mask of columns x columns. In depth-first order a token sees the columns before it whose subtree it is in."""

    def __init__(self, nodes: Sequence[tuple[int, int, int]], positions: torch.Tensor) -> None:
        self.positions = positions.reshape(-1)
        ends = torch.empty_like(self.positions)
        for start, stop, end in nodes:
            ends[start:stop] = end
        self.ends = ends
        self.reach = int(self.positions.max()) + 1
        self._made: dict[int | None, Any] = {}

    def sees(self, window: int | None) -> Sees:
        """The rule as a function; ``window``: a token sees the last so many positions, itself included."""

        def inside(batch: Any, head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            return (key <= query) & (query < self.ends[key])

        if window is None:
            return inside
        reach = window

        def near(batch: Any, head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            return inside(batch, head, query, key) & (self.positions[query] - self.positions[key] < reach)

        return near

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, window: int | None
    ) -> torch.Tensor:
        """See :meth:`covey.learner.tree_kernel.Parts.attend`."""
        window = None if window is None or window >= self.reach else window
        if window not in self._made:
            self._made[window] = self._make(self.sees(window))
        query, key, value = (stream.transpose(0, 1)[None] for stream in (query, key, value))
        return self._apply(query, key, value, scale, window)

    def _make(self, sees: Sees) -> Any:
        columns = torch.arange(len(self.ends), device=self.ends.device)
        return sees(None, None, columns[:, None], columns[None])

    def _apply(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, window: int | None
    ) -> torch.Tensor:
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=self._made[window], scale=scale, enable_gqa=query.shape[1] != key.shape[1]
        )
        return out[0].transpose(0, 1)


class Flex(Dense):
    """The same by FlexAttention, which skips blocks that nobody sees and never writes the mask out."""

    def _make(self, sees: Sees) -> Any:
        from torch.nn.attention.flex_attention import create_block_mask

        size = len(self.ends)
        return create_block_mask(sees, None, None, size, size, device=str(self.ends.device))

    def _apply(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, window: int | None
    ) -> torch.Tensor:
        out = _flex_attention()(
            query, key, value, block_mask=self._made[window], scale=scale, enable_gqa=query.shape[1] != key.shape[1]
        )
        return out[0].transpose(0, 1)


@cache
def _flex_attention() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)
