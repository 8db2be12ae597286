"""Gated feed-forward layers (SwiGLU, arXiv 2002.05202) that keep half of what autograd would."""

from __future__ import annotations

from typing import Any

import torch

from covey.kernels.gradients import weight_gradient
from covey.kernels.linear import Packing, QuickLinear, product, reordered


class QuickGated(torch.nn.Module, Packing):
    """``down(silu(gate(x)) * up(x))``. What it was before is the next class.

    Gate and up are kept for the backward pass, [n, hidden] each; the activation and the product of both are made again.
    As long as weights do not change, both are one product.
    """

    both: Any = None  # the weights of gate and up, packed as one
    both_bias: Any = None

    gate_proj: torch.nn.Module
    up_proj: torch.nn.Module
    down_proj: Any

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down = self.down_proj
        if self.both is not None and not torch.is_grad_enabled():
            gate, up = product(x, self.both, self.both_bias).chunk(2, dim=-1)
            return down(torch.nn.functional.silu(gate).mul_(up))  # type: ignore[no-any-return]
        if type(down) is QuickLinear and down.suits(x) and torch.is_grad_enabled():
            return _Down.apply(self.gate_proj(x), self.up_proj(x), down.weight, down.bias, down.adds)  # type: ignore[no-any-return]
        return super().forward(x)  # type: ignore[misc]

    def pack(self) -> None:
        layers = self.covers()
        if layers:
            self.both = reordered(torch.cat([layer.weight for layer in layers]))
            self.both_bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers]).detach()

    def unpack(self) -> None:
        self.both = self.both_bias = None

    def covers(self) -> tuple[Any, ...]:
        layers: tuple[Any, ...] = (self.gate_proj, self.up_proj)
        quick = all(type(layer) is QuickLinear and layer.suits(layer.weight) for layer in layers)
        return layers if quick and len({layer.bias is None for layer in layers}) == 1 else ()


@torch.no_grad()
def is_gated(module: Any) -> bool:
    """Whether ``module`` is such a layer, in float32 on the CPU: by its parts, and tried on a few numbers."""
    parts = dict(module.named_children())
    if isinstance(module, QuickGated) or parts.keys() != {"gate_proj", "up_proj", "down_proj", "act_fn"}:
        return False
    gate, up, down, act = (parts[name] for name in ("gate_proj", "up_proj", "down_proj", "act_fn"))
    if not all(isinstance(part, torch.nn.Linear) and part.weight.dtype == torch.float32 for part in (gate, up, down)):
        return False
    if gate.weight.device.type != "cpu":
        return False
    wide, silu = torch.linspace(-8.0, 8.0, 64), torch.nn.functional.silu
    few = torch.linspace(-2.0, 3.0, 2 * gate.in_features).view(2, -1)
    expected = down(silu(gate(few)) * up(few))
    near = 1e-5 * float(expected.abs().max())
    return torch.allclose(act(wide), silu(wide), atol=1e-6) and torch.allclose(module(few), expected, atol=near)


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
