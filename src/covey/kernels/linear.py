"""Linear layers through oneDNN in place of the BLAS library: the same products in less time, in float32 on a CPU.

Three times less with the few rows that sampling has, a quarter less with the many of training (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from covey.kernels.gradients import Summing, weight_gradient

LEAST = 1 << 17
"""Weights below this many cells are left to BLAS: the call alone costs more than can be won."""


class Packing:
    """A layer that keeps a copy of its weights, in oneDNN's own order, as long as they do not change."""

    def pack(self) -> None:
        """Make the copy."""

    def unpack(self) -> None:
        """Drop it."""

    def covers(self) -> tuple[torch.nn.Module, ...]:
        """Layers inside this one that need no copy of their own then."""
        return ()


class QuickLinear(torch.nn.Linear, Summing, Packing):
    """A linear layer [..., in] to [..., out] that picks the quicker of the two libraries. Same weights, same names."""

    packed: torch.Tensor | None = None  # the weight in oneDNN's own order, as long as it does not change

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not self.suits(input):
            return super().forward(input)
        if torch.is_grad_enabled():
            return _Product.apply(input, self.weight, self.bias, self.adds)  # type: ignore[no-any-return]
        return product(input, self.weight if self.packed is None else self.packed, self.bias)

    def pack(self) -> None:
        if self.suits(self.weight):
            self.packed = reordered(self.weight)

    def unpack(self) -> None:
        self.packed = None

    def suits(self, input: torch.Tensor) -> bool:
        """Whether oneDNN is asked at all; torch.compile knows better ways, and not this one."""
        if torch.compiler.is_compiling():
            return False
        there = input.device.type == self.weight.device.type == "cpu"
        return there and input.dtype == self.weight.dtype == torch.float32


def is_plain_linear(module: torch.nn.Module) -> bool:
    """Whether ``module`` is a linear layer, of no other kind, and large."""
    return type(module) is torch.nn.Linear and module.weight.numel() >= LEAST


@contextmanager
def packed(model: torch.nn.Module) -> Iterator[None]:
    """Inside, weights do not change: quick layers keep a copy of theirs in the order in which oneDNN reads fastest."""
    layers = [module for module in model.modules() if isinstance(module, Packing)]
    covered = {inner for layer in layers for inner in layer.covers()}
    try:
        for layer in layers:
            if layer not in covered:
                layer.pack()
        yield
    finally:
        for layer in layers:
            layer.unpack()


def reordered(weight: torch.Tensor) -> torch.Tensor:
    """A copy of a weight that only :func:`product` can read."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach())  # type: ignore[no-any-return]


def product(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """``input`` [..., in] times ``weight`` [out, in] transposed."""
    return torch.ops.mkldnn._linear_pointwise(input, weight, bias, "none", [], "")


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias, adds):  # type: ignore[override]
        ctx.save_for_backward(input, weight)
        ctx.adds = adds
        return product(input, weight, bias)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[override]
        input, weight = ctx.saved_tensors
        wants_input, wants_weight, wants_bias, _ = ctx.needs_input_grad
        rows, change = grad.reshape(-1, grad.shape[-1]), None
        if wants_weight:
            change = weight_gradient(weight, rows, input.reshape(-1, input.shape[-1]), ctx.adds)
        return (
            product(grad, weight.t()) if wants_input else None,
            change,
            rows.sum(dim=0) if wants_bias else None,
            None,
        )
