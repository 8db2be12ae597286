"""Running a model over a tree of sequences: its layers' attention is replaced by one that follows the tree."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import AttentionInterface

from covey.batching.tree import tree_of
from covey.kernels.attention import attending, full_or_windowed
from covey.learner.tree_dense import Dense, Flex
from covey.learner.tree_kernel import Parts
from covey.types import Tree

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "covey_tree"
"""Of the attention, in transformers' registry."""

_FOLLOWS: WeakKeyDictionary[torch.nn.Module, bool] = WeakKeyDictionary()


def run_over(model: PreTrainedModel, decoder: Callable[..., Any], tree: Tree) -> Any:
    """Output of ``decoder``, which is ``model`` or a part of it, for the C distinct tokens of a tree: [1, C, ...]."""
    kernel = {"cpu": Parts, "cuda": Flex}.get(tree.tokens.device.type, Dense)
    plan = kernel(tree.nodes, tree.positions)
    with following(model):
        return decoder(input_ids=tree.tokens, position_ids=tree.positions, use_cache=False, tree=plan)


def follows_trees(model: PreTrainedModel) -> bool:
    """Whether the model gives a tree's tokens what it gives the sequences one by one: tried once a model.

    It does if its tokens meet in attention only, and that is the one of transformers' registry.
    """
    if model not in _FOLLOWS:
        _FOLLOWS[model] = full_or_windowed(model) and _tried(model)
    return _FOLLOWS[model]


@torch.no_grad()
def _tried(model: PreTrainedModel) -> bool:
    vocabulary = model.config.get_text_config().vocab_size
    sequences = [np.array([*range(10), *end]) % vocabulary for end in ((1, 2, 3), (3, 2, 1, 4), (5, 6))]
    tree = tree_of(sequences).to(model.device)
    try:
        found = run_over(model, model, tree).logits[0, tree.source[0, :]]
    except (AttributeError, TypeError, ValueError, RuntimeError, NotImplementedError):  # attention of another build
        return False
    first, near = 0, 1e-3 if found.dtype in (torch.float32, torch.float64) else 5e-2
    for sequence in sequences:
        alone = model(input_ids=torch.from_numpy(sequence)[None, :-1].to(model.device), use_cache=False).logits[0]
        if not torch.allclose(found[first + 1 : first + len(sequence)].float(), alone.float(), rtol=near, atol=near):
            return False
        first += len(sequence)
    return True


def following(model: PreTrainedModel) -> AbstractContextManager[None]:
    """Inside, the model's attention follows the tree that its forward pass is given."""
    return attending(model, NAME)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    tree: Parts | Dense,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The registry's signature: [1, H, C, d] in, [1, C, H, d] out."""
    if others.get("softcap") is not None or others.get("s_aux") is not None or others.get("position_bias") is not None:
        raise NotImplementedError("caps, sinks and biases of attention scores have no tree kernel")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = (stream[0].transpose(0, 1) for stream in (query, key, value))
    return tree.attend(query, key, value, scale, sliding_window)[None], None


AttentionInterface.register(NAME, _attend)
