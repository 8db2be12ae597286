"""Attention of one new token a row over slots: all rows of a prompt meet its keys in one product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from covey.engines.slots import Slots
from covey.kernels.attention import attending, full_or_windowed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "covey_slots"
"""Of the attention, in transformers' registry."""

_BYTES: WeakKeyDictionary[torch.nn.Module, int | None] = WeakKeyDictionary()


def next_logits(model: PreTrainedModel, slots: Slots, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Add ``tokens`` i64[n] at ``positions`` i64[n] to the slots' rows: the logits [n, V] after them.

    The model must be attending by ``NAME``.
    """
    out = model(
        input_ids=tokens[:, None],
        position_ids=positions[:, None],
        cache=slots,
        slots=slots,
        use_cache=True,
        logits_to_keep=1,
    )
    return out.logits[:, -1]


def prefill(model: PreTrainedModel, ids: torch.Tensor, attended: torch.Tensor) -> tuple[DynamicCache, torch.Tensor]:
    """Prompts [p, width], padded on the left: their cache and the logits [p, V] after them."""
    cache = DynamicCache()  # whole, also for layers that look back only so far: the mask says how far
    out = model(
        input_ids=ids,
        attention_mask=attended,
        position_ids=(attended.cumsum(1) - 1).clamp(min=0),
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return cache, out.logits[:, -1]


def shares_prompts(model: PreTrainedModel) -> bool:
    """Whether the model can be sampled with slots and gives the same logits.

    It can if its layers keep keys and values alone and look back without end or over a window, and its attention is of
    transformers' registry.
    """
    return token_bytes(model) is not None


def token_bytes(model: PreTrainedModel) -> int | None:
    """Bytes that keys and values of a token take in all layers, if the model can be sampled with slots: tried once."""
    if model not in _BYTES:
        layers = DynamicCache(config=model.config).layers
        plain = bool(layers) and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        _BYTES[model] = _tried(model, len(layers)) if plain and full_or_windowed(model) else None
    return _BYTES[model]


@torch.inference_mode()
def _tried(model: PreTrainedModel, layers: int) -> int | None:
    size, device = model.config.get_text_config().vocab_size, model.device
    ids = (torch.tensor([[0, 0, 5, 6], [7, 8, 9, 4]]) % size).to(device)
    attended = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]], device=device)
    new = (torch.tensor([[5, 3], [6, 2], [4, 1]]) % size).to(device)  # of two rows of the first, one of the second
    prompts = [ids[0, 2:], ids[0, 2:], ids[1]]
    try:
        cache, _ = prefill(model, ids, attended)
        slots = Slots(layers, rows=3, longest=2)
        slots.join([(b"a", 2), (b"b", 4)], cache, ())
        for key in (b"a", b"a", b"b"):
            slots.admit(key)
        for at in (0, 1):
            slots.begin(at == 0, device)
            places = torch.tensor([len(prompt) + at for prompt in prompts], device=device)
            with attending(model, NAME):
                found = next_logits(model, slots, new[:, at], places)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None  # attention of another build
    near = 1e-3 if found.dtype in (torch.float32, torch.float64) else 5e-2
    whole = [torch.cat([prompt, answer])[None] for prompt, answer in zip(prompts, new, strict=True)]
    alone = torch.cat([model(input_ids=row, use_cache=False).logits[:, -1] for row in whole])
    if not torch.allclose(found.float(), alone.float(), rtol=near, atol=near):
        return None
    return sum(part[0, :, 0].nbytes for layer in slots.held for part in layer.prompts)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    slots: Slots,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The registry's signature: query [n, H, 1, d], own keys and values [n, heads, columns, d]; [n, 1, H, d] out."""
    if others.get("s_aux") is not None or others.get("position_bias") is not None:
        raise NotImplementedError("sinks and biases of attention scores are not known here")
    step, (prompt_keys, prompt_values) = slots.step, slots.held[module.layer_idx].prompts
    n, heads, _, size = query.shape
    query = (query * (size**-0.5 if scaling is None else scaling)).view(n, key.shape[1], -1, size)
    far = step.risen(step.seated(query) @ prompt_keys.transpose(2, 3))
    scores = torch.cat([far, query @ key.transpose(2, 3)], dim=-1)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores.to(wide) + step.mask(sliding_window), dim=-1).to(value.dtype)
    found = step.risen(step.seated(weights[..., : step.width]) @ prompt_values)
    found = found + weights[..., step.width :] @ value
    return found.reshape(n, 1, heads, -1), None


AttentionInterface.register(NAME, _attend)
