"""Gated feed-forward layers (SwiGLU, arXiv 2002.05202) that keep half of what autograd would."""

from __future__ import annotations

from typing import Any

import torch

from covey.kernels.gradients import weight_gradient
from covey.kernels.linear import QuickLinear, product


class QuickGated(torch.nn.Module):
    """``down(silu(gate(x)) * up(x))``. What it was before is the next class.

    Gate and up are kept for the backward pass, [n, hidden] each; the activation and the product of both are made again.
    """

    gate_proj: torch.nn.Module
    up_proj: torch.nn.Module
    down_proj: Any

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down = self.down_proj
        if type(down) is QuickLinear and down.suits(x) and torch.is_grad_enabled():
            return _Down.apply(self.gate_proj(x), self.up_proj(x), down.weight, down.bias, down.adds)  # type: ignore[no-any-return]
        return super().forward(x)  # type: ignore[misc]


@torch.no_grad()
def is_gated(module: Any) -> bool:
    """Whether ``module`` is such a layer: by its parts, and tried on a few numbers."""
    parts = dict(module.named_children())
    linear = [parts.get(name) for name in ("gate_proj", "up_proj", "down_proj")]
    if isinstance(module, QuickGated) or parts.keys() - {"act_fn"} != {"gate_proj", "up_proj", "down_proj"}:
        return False
    if not all(isinstance(part, torch.nn.Linear) for part in linear) or linear[0].weight.device.type != "cpu":
        return False
    gate, up, down = linear
    few = torch.linspace(-2.0, 3.0, 2 * gate.in_features, dtype=gate.weight.dtype).view(2, -1)
    expected = down(torch.nn.functional.silu(gate(few)) * up(few))
    return torch.allclose(module(few), expected, rtol=1e-2, atol=1e-2 * float(expected.abs().max()))


class _Down(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, weight, bias, adds):  # type: ignore[override]
        ctx.save_for_backward(gate, up, weight)
        ctx.adds = adds
        return product(torch.nn.functional.silu(gate).mul_(up), weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):  # type: ignore[override]
        gate, up, weight = ctx.saved_tensors
        _, _, wants_weight, wants_bias, _ = ctx.needs_input_grad
        active, rows, change = torch.nn.functional.silu(gate), grad.reshape(-1, grad.shape[-1]), None
        if wants_weight:
            change = weight_gradient(weight, rows, (active * up).reshape(-1, up.shape[-1]), ctx.adds)
        inner = product(grad, weight.t())
        return (
            torch.ops.aten.silu_backward(inner * up, gate),
            inner.mul_(active),
            change,
            rows.sum(dim=0) if wants_bias else None,
            None,
        )
