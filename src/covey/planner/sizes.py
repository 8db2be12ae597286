"""How many bytes a model and its training take, from its shape alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A dense decoder of the Llama kind: RMSNorm, gated MLP, grouped key/value heads."""

    vocabulary: int
    hidden: int
    layers: int
    mlp: int
    query_heads: int
    kv_heads: int
    head: int
    tied: bool = True  # input and output embeddings are one matrix
    qkv_bias: bool = False

    @classmethod
    def of(cls, config: Any) -> Shape:
        """Of a transformers configuration of this kind."""
        heads = config.num_attention_heads
        return cls(
            vocabulary=config.vocab_size,
            hidden=config.hidden_size,
            layers=config.num_hidden_layers,
            mlp=config.intermediate_size,
            query_heads=heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head=getattr(config, "head_dim", None) or config.hidden_size // heads,
            tied=bool(config.tie_word_embeddings),
            qkv_bias=bool(getattr(config, "attention_bias", False) or config.model_type == "qwen2"),
        )

    @property
    def parameters(self) -> int:
        """All weights, exactly."""
        h, q, k = self.hidden, self.query_heads * self.head, self.kv_heads * self.head
        attention = h * q + 2 * h * k + q * h + (q + 2 * k if self.qkv_bias else 0)
        layer = attention + 3 * h * self.mlp + 2 * h
        return self.vocabulary * h * (1 if self.tied else 2) + self.layers * layer + h

    def kv_per_token(self, bytes_each: int = 2) -> int:
        """Bytes of keys and values that one token leaves in the cache: 2 layers kv_heads head bytes."""
        return 2 * self.layers * self.kv_heads * self.head * bytes_each

    def activations_per_token(self, bytes_each: int = 2, checkpointed: bool = False, quick: bool = False) -> int:
        """Bytes that one layer keeps of one token for the backward pass, without dropout and without dense attention.

        2 ((4 + 2 b) h + 4) + b (2 n_q d + 2 n_k d) + 4 n_q + 4 b f. With ``checkpointed`` layers only their input, b h.
        ``quick`` norms keep their input and what they give, 2 (2 b h + 4), and quick gated layers half, 2 b f
        (``covey.kernels``).
        """
        b, h = bytes_each, self.hidden
        if checkpointed:
            return b * h
        norms = 2 * (2 * b * h + 4) if quick else 2 * ((4 + 2 * b) * h + 4)
        attention = b * (2 * self.query_heads * self.head + 2 * self.kv_heads * self.head) + 4 * self.query_heads
        return norms + attention + (2 if quick else 4) * b * self.mlp


STATES = {
    "adam_mixed": 16,  # 16-bit weights 2, gradients 2, float32 master 4, two moments 8
    "adam_mixed_fp32_gradients": 18,
    "adam_bf16": 8,
    "adam_fp32": 16,
}
"""Bytes a trainable parameter, by how it is trained. A frozen copy takes 2 (16-bit) more."""


def kv_pool(
    shape: Shape, prompts: int, prompt_tokens: int, group_size: int, new_tokens: int, bytes_each: int = 2
) -> int:
    """Bytes of the key/value cache of a sampling batch whose siblings share their prompt."""
    return shape.kv_per_token(bytes_each) * prompts * (prompt_tokens + group_size * new_tokens)


def logits(tokens: int, vocabulary: int, bytes_each: int = 2) -> int:
    """Bytes of the logits of so many tokens."""
    return tokens * vocabulary * bytes_each


def logits_peak(tokens: int, vocabulary: int) -> int:
    """Peak of a plain log-softmax with its gradient: 16-bit logits, and three float32 copies of them."""
    return logits(tokens, vocabulary, 2) + 3 * logits(tokens, vocabulary, 4)
