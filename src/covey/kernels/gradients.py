"""Gradients of large weights, added to where they belong: no tensor of a weight's size is made for each pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

LEAST = 1 << 17
"""Weights below this many cells are left to autograd: they are not worth a change."""


class Summing:
    """A layer that can add to ``weight.grad`` itself, and does where ``adds`` is set."""

    adds = False


class SummingEmbedding(torch.nn.Embedding, Summing):
    """An embedding whose gradient is added to the rows that were looked up. Same weights, same names.

    Autograd makes a gradient of the whole table for each pass: for a small model it is a fifth of all weights.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # Weights in other precisions may have float32 copies, which collect gradients by hooks.
        here = self.weight.device.type == "cpu" and self.weight.dtype == torch.float32
        if self.adds and here and torch.is_grad_enabled() and self.weight.requires_grad:
            return _Lookup.apply(self.weight, input, self.padding_idx)  # type: ignore[no-any-return]
        return super().forward(input)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, ids, unused):  # type: ignore[override]
        ctx.save_for_backward(weight, ids)
        ctx.unused = unused
        return torch.nn.functional.embedding(ids, weight)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[override]
        weight, ids = ctx.saved_tensors
        ids, rows = ids.reshape(-1), grad.reshape(-1, grad.shape[-1])
        if ctx.unused is not None:
            ids, rows = ids[ids != ctx.unused], rows[ids != ctx.unused]
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        weight.grad.index_add_(0, ids, rows)
        return None, None, None


def weight_gradient(weight: torch.Tensor, left: torch.Tensor, right: torch.Tensor, adds: bool) -> torch.Tensor | None:
    """``left`` [n, out] transposed times ``right`` [n, in]; if it ``adds``, put into the gradient of ``weight``.

    Through BLAS, which is quicker at this than oneDNN.
    """
    if not adds:
        return left.t() @ right
    if weight.grad is None:
        weight.grad = left.t() @ right
    else:
        weight.grad.addmm_(left.t(), right)
    return None


def is_plain_embedding(module: torch.nn.Module) -> bool:
    """Whether ``module`` is a large embedding that does nothing but look up."""
    if type(module) is not torch.nn.Embedding or module.weight.numel() < LEAST:
        return False
    return module.max_norm is None and not module.scale_grad_by_freq and not module.sparse


@contextmanager
def adding(model: torch.nn.Module) -> Iterator[None]:
    """Inside, passes of ``model`` that reach ``weight.grad`` of a summing layer add to it there and then.

    Both the forward and the backward pass belong inside. Hooks on the gradients of those weights are not called.
    """
    layers = [module for module in model.modules() if isinstance(module, Summing)]
    for layer in layers:
        layer.adds = True
    try:
        yield
    finally:
        for layer in layers:
            layer.adds = False
