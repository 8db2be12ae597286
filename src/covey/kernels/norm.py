"""Root mean square norms (arXiv 1910.07467) that keep their input alone, and are one step of the backward pass."""

from __future__ import annotations

from typing import Any

import torch


class QuickNorm(torch.nn.Module):
    """A norm over the last of [..., d]: ``x / sqrt(mean(x^2) + eps) * weight``. What it was before is the next class.

    Composed of single operations it keeps its input and two tensors more, and passes over them a dozen times.
    """

    weight: torch.Tensor

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        if _suits(hidden_states) and _suits(self.weight):
            if torch.is_grad_enabled():
                return _Norm.apply(hidden_states, self.weight, epsilon(self))  # type: ignore[no-any-return]
            return (hidden_states * _scale(hidden_states, epsilon(self))).mul_(self.weight)
        return super().forward(hidden_states)  # type: ignore[misc]


def epsilon(module: Any) -> Any:
    """What a norm adds to the mean of squares, by the two names that transformers has for it."""
    return getattr(module, "variance_epsilon", getattr(module, "eps", None))


@torch.no_grad()
def is_norm(module: torch.nn.Module) -> bool:
    """Whether ``module`` is such a norm, in float32 on the CPU: by its name and parts, and tried on a few numbers."""
    names = [name for name, _ in module.named_parameters()]
    if isinstance(module, QuickNorm) or names != ["weight"] or not type(module).__name__.endswith("RMSNorm"):
        return False
    weight: Any = module.weight
    if not isinstance(epsilon(module), float) or weight.ndim != 1 or not _suits(weight):
        return False
    few = torch.linspace(-2.0, 3.0, 2 * weight.numel()).view(2, -1)
    return torch.allclose(
        module(few), torch.nn.functional.rms_norm(few, few.shape[1:], weight, epsilon(module)), atol=1e-5
    )


def _suits(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def _scale(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x.square().mean(dim=-1, keepdim=True).add_(eps).rsqrt_()  # the same bits as the layer itself


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):  # type: ignore[override]
        scale = _scale(x, eps)
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):  # type: ignore[override]
        x, weight, scale = ctx.saved_tensors
        wants_input, wants_weight, _ = ctx.needs_input_grad
        even, change = x * scale, None
        if wants_weight:
            change = (grad * even).reshape(-1, even.shape[-1]).sum(dim=0)
        if not wants_input:
            return None, change, None
        slope = grad * weight
        along = (slope * even).mean(dim=-1, keepdim=True)
        return slope.sub_(even.mul_(along)).mul_(scale), change, None
