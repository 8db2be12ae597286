"""A model in two halves, hidden states and the head that makes logits of them: both need not be whole at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from covey.learner.tree import run_over
from covey.types import MicroBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Head = Callable[[torch.Tensor], torch.Tensor]
"""From states [n, d] to logits [n, V]."""

_SPLITS: WeakKeyDictionary[torch.nn.Module, bool] = WeakKeyDictionary()


def trained_states(model: PreTrainedModel, micro: MicroBatch) -> tuple[torch.Tensor, Head]:
    """The states [N, d] that predict the N trained tokens of a micro-batch, and the head for them.

    Where a model does not come apart, the states are its logits and the head leaves them as they are.
    """
    if splits(model):
        return _before_trained(model, model.get_decoder(), "last_hidden_state", micro), head_of(model)
    return _before_trained(model, model, "logits", micro), lambda states: states


def _before_trained(model: PreTrainedModel, part: Any, output: str, micro: MicroBatch) -> torch.Tensor:
    """What ``part`` of the model puts out where the next token is trained, [N, ...]."""
    predicted = micro.trained[:, 1:]
    if micro.tree is not None:
        found = getattr(run_over(model, part, micro.tree), output)[0]
        # A prompt's last token predicts many: gradients that meet there are summed in a fixed order only this way.
        return found.index_select(0, micro.tree.source[:, 1:][predicted])
    found = part(
        input_ids=micro.tokens, attention_mask=micro.attended.long(), position_ids=micro.positions, use_cache=False
    )
    return getattr(found, output)[:, :-1][predicted]


def head_of(model: PreTrainedModel) -> Head:
    """The output layer with what the architecture does to its result: a scale, a divisor or a soft cap."""
    config: Any = model.config.get_text_config()
    scale, divisor = getattr(config, "logit_scale", None), getattr(config, "logits_scaling", None)
    cap = getattr(config, "final_logit_softcapping", None)
    layer: Any = model.get_output_embeddings()

    def head(states: torch.Tensor) -> torch.Tensor:
        logits = layer(states)
        if scale is not None:
            logits = logits * scale
        if divisor is not None:
            logits = logits / divisor
        return logits if cap is None else cap * torch.tanh(logits / cap)

    return head


def splits(model: PreTrainedModel) -> bool:
    """Whether decoder and head together give the model's own logits: tried once a model, on three tokens."""
    if model not in _SPLITS:
        _SPLITS[model] = _tried(model)
    return _SPLITS[model]


@torch.no_grad()
def _tried(model: PreTrainedModel) -> bool:
    if not hasattr(model, "get_decoder") or not hasattr(model, "get_output_embeddings"):
        return False
    ids = torch.tensor([[0, 1, 2]], device=model.device)
    try:
        states = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        parts = head_of(model)(states)
    except (AttributeError, TypeError, RuntimeError, NotImplementedError):  # an architecture of another build
        return False
    whole = model(input_ids=ids, use_cache=False).logits
    return parts.shape == whole.shape and torch.allclose(parts.float(), whole.float(), rtol=1e-3, atol=1e-3)
