"""Activation checkpointing: layers keep their inputs only, and are run again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from covey.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextmanager
def recomputing(model: PreTrainedModel) -> Iterator[None]:
    """Inside, layers of ``model`` are checkpointed (arXiv 1604.06174): a third more time, a fraction of the memory.

    transformers ties this to training mode, which would switch dropout on; here the layers are told, and nothing inside
    them. Raises ModelError for a model whose layers cannot do it.
    """
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ModelError(
            f"{type(model).__name__} has no layers that can be checkpointed: set optim.checkpointing = false"
        )
    for layer in layers:
        layer.training = layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
    try:
        yield
    finally:
        for layer in layers:
            layer.training = layer.gradient_checkpointing = False
