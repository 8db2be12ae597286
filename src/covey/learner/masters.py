"""Training a model in bfloat16 without losing what a small learning rate changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Masters:
    """Float32 copies of those trained weights that the model holds in a narrower type (arXiv 1710.03740, section 3.1).

    The optimizer works on the copies; a bfloat16 weight itself would round most updates at a learning rate of 1e-6 to
    nothing. Gradients are summed over micro-batches in float32 on the copy as well, and leave the model at once, so a
    weight costs 2 bytes in the model and 16 beside it. Weights in float32 or float64 are their own masters.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.trained: dict[str, torch.nn.Parameter] = {}
        self._copies: dict[torch.nn.Parameter, torch.nn.Parameter] = {}
        for name, weight in model.named_parameters():
            if not weight.requires_grad:
                continue
            self.trained[name] = weight
            if weight.dtype in (torch.bfloat16, torch.float16):
                self.trained[name] = self._copies[weight] = torch.nn.Parameter(weight.detach().float())
                weight.register_post_accumulate_grad_hook(self._collect)

    @torch.no_grad()
    def _collect(self, weight: torch.Tensor) -> None:
        copy, gradient = self._copies[weight], weight.grad  # type: ignore[index]
        if gradient is not None:
            copy.grad = gradient.float() if copy.grad is None else copy.grad.add_(gradient)
            weight.grad = None

    @torch.no_grad()
    def release(self) -> None:
        """Round the copies into the model."""
        for weight, copy in self._copies.items():
            weight.copy_(copy)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The copies by name; empty where there are none."""
        mine = set(self._copies.values())
        return {name: weight.detach() for name, weight in self.trained.items() if weight in mine}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """The reverse of :meth:`state_dict`; the model gets them too."""
        for name, tensor in state.items():
            self.trained[name].copy_(tensor)
        self.release()
