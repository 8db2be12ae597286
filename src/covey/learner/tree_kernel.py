"""Attention over a tree in dense parts, for the CPU: each node with itself, and with what lies below it.

A token's softmax runs over its own node and all nodes above. Every part gives an output and the logarithm of its
normaliser; the parts are put together by those (as in ring attention, arXiv 2310.01889), and in the backward pass each
part needs only the whole output and normaliser. Nothing of size tokens x tokens is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

_forward: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
_backward: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)

Masked = tuple[torch.Tensor, torch.Tensor]

GROWTH = 1.25
"""Nodes are padded to the longest of their batch; one shorter than this part of it starts another batch."""


class Parts:
    """The dense parts of a tree with C columns, made once for all layers.

    ``own``: batches of nodes as columns [n, L], padded with column 0, and which of them are real.
    ``across``: for each node with descendants, the columns of the descendants and its own.
    """

    def __init__(self, nodes: Sequence[tuple[int, int, int]], positions: torch.Tensor) -> None:
        self.positions = positions.reshape(-1)
        self.reach = int(self.positions.max()) + 1
        self.own = [_batch(some, self.positions.device) for some in _alike(nodes)]
        self.across = [(slice(stop, end), slice(start, stop)) for start, stop, end in nodes if end > stop]
        self._masks: dict[Any, Masked] = {}

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, window: int | None
    ) -> torch.Tensor:
        """Attention output [C, H, d] for queries [C, H, d] and keys and values [C, K, d], H a multiple of K.

        ``window``: a token sees the last so many positions, itself included; None is all.
        """
        return _TreeAttention.apply(query, key, value, self, scale, window)  # type: ignore[return-value]

    def own_mask(self, length: int, window: int | None, like: torch.Tensor) -> torch.Tensor | None:
        """What a node's tokens do not see of it, as an added mask [1, 1, L, L]; None if all before them is seen."""
        if window is None or window >= length:
            return None
        places = torch.arange(length, device=like.device)
        ahead = places[:, None] - places[None]
        return _added((ahead >= 0) & (ahead < window), like)

    def across_mask(self, part: int, window: int | None, like: torch.Tensor) -> Masked | None:
        """The same for a node above, [1, 1, queries, keys], and which queries see nothing of it."""
        if window is None or window >= self.reach:
            return None
        key = (part, window, like.dtype)
        if key not in self._masks:
            queries, keys = self.across[part]
            seen = self.positions[queries][:, None] - self.positions[keys][None] < window
            self._masks[key] = _added(seen, like), ~seen.any(dim=1)
        return self._masks[key]


class _TreeAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, parts: Parts, scale, window):  # type: ignore[override]
        out = torch.empty_like(query)
        norm = query.new_empty(query.shape[:2], dtype=torch.promote_types(query.dtype, torch.float32))
        for columns, real in parts.own:
            mask = parts.own_mask(columns.shape[1], window, query)
            got, logs = _forward(
                *(stream[columns].transpose(1, 2) for stream in (query, key, value)),
                0.0, mask is None, attn_mask=mask, scale=scale,
            )  # fmt: skip
            out[columns[real]], norm[columns[real]] = got.transpose(1, 2)[real], logs.transpose(1, 2)[real]
        for part, (queries, keys) in enumerate(parts.across):
            masked = parts.across_mask(part, window, query)
            got, logs = _forward(
                _whole(query[queries]), _whole(key[keys]), _whole(value[keys]),
                0.0, False, attn_mask=None if masked is None else masked[0], scale=scale,
            )  # fmt: skip
            logs = logs[0].transpose(0, 1)
            if masked is not None:
                logs = logs.masked_fill(masked[1][:, None], -math.inf)
            total = torch.logaddexp(norm[queries], logs)
            mine, theirs = (norm[queries] - total).exp()[..., None], (logs - total).exp()[..., None]
            out[queries] = (mine * out[queries] + theirs * got[0].transpose(0, 1)).to(out.dtype)
            norm[queries] = total
        ctx.save_for_backward(query, key, value, out, norm)
        ctx.parts, ctx.scale, ctx.window = parts, scale, window
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[override]
        query, key, value, out, norm = ctx.saved_tensors
        parts, scale, window = ctx.parts, ctx.scale, ctx.window
        grads = tuple(torch.empty_like(stream) for stream in (query, key, value))
        for columns, real in parts.own:
            mask = parts.own_mask(columns.shape[1], window, query)
            beyond = ~real[..., None]
            found = _backward(
                grad[columns].masked_fill(beyond[..., None], 0.0).transpose(1, 2),
                *(stream[columns].transpose(1, 2) for stream in (query, key, value, out)),
                norm[columns].masked_fill(beyond, math.inf).transpose(1, 2),  # so that padding has weight 0
                0.0, mask is None, attn_mask=mask, scale=scale,
            )  # fmt: skip
            for target, part in zip(grads, found, strict=True):
                target[columns[real]] = part.transpose(1, 2)[real]
        for part, (queries, keys) in enumerate(parts.across):
            masked = parts.across_mask(part, window, query)
            found = _backward(
                _whole(grad[queries]), _whole(query[queries]), _whole(key[keys]), _whole(value[keys]),
                _whole(out[queries]), norm[queries].transpose(0, 1)[None],
                0.0, False, attn_mask=None if masked is None else masked[0], scale=scale,
            )  # fmt: skip
            for target, where, more in zip(grads, (queries, keys, keys), found, strict=True):
                target[where] += more[0].transpose(0, 1)
        return *grads, None, None, None


def _whole(stream: torch.Tensor) -> torch.Tensor:
    """[n, H, d] as a batch of one, [1, H, n, d]."""
    return stream.transpose(0, 1)[None]


def _added(seen: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(seen, dtype=like.dtype).masked_fill(~seen, -math.inf)[None, None]


def _alike(nodes: Sequence[tuple[int, int, int]]) -> list[list[tuple[int, int]]]:
    """Nodes' own columns in batches of nearly equal length."""
    batches: list[list[tuple[int, int]]] = []
    for start, stop in sorted(((start, stop) for start, stop, _ in nodes), key=lambda own: own[0] - own[1]):
        longest = batches[-1][0][1] - batches[-1][0][0] if batches else 0
        if batches and longest <= GROWTH * (stop - start) + 8:
            batches[-1].append((start, stop))
        else:
            batches.append([(start, stop)])
    return batches


def _batch(own: Sequence[tuple[int, int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    length = max(stop - start for start, stop in own)
    starts = torch.tensor([start for start, _ in own], device=device)
    lengths = torch.tensor([stop - start for start, stop in own], device=device)
    places = torch.arange(length, device=device)
    real = places[None] < lengths[:, None]
    return torch.where(real, starts[:, None] + places[None], 0), real
