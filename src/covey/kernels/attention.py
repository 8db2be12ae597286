"""What sampling and training with an attention of our own have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextmanager
def attending(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Inside, the model's layers use the attention of this name in transformers' registry."""
    before: Any = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def full_or_windowed(model: PreTrainedModel) -> bool:
    """Whether each layer looks back without end or over a window; nothing else, such as chunks, is known to ours."""
    config: Any = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    return set(kinds) <= {"full_attention", "sliding_attention"} and not getattr(config, "attention_chunk_size", None)
