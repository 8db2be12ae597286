"""Drawing tokens: temperature, truncation and the log-probs of the distribution really sampled from."""

from __future__ import annotations

import numpy as np
import torch

from covey.types import Sampling


def uniforms(sampling: Sampling) -> np.ndarray:
    """One uniform number a token, f64[max_new_tokens], from the request's own seed.

    A response depends on its seed and its log-probs only, never on what else is in the batch.
    """
    return np.random.Generator(np.random.Philox(key=sampling.seed)).random(sampling.max_new_tokens)


def probabilities(
    logits: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor, top_k: torch.Tensor
) -> torch.Tensor:
    """The distribution that is sampled from, f32[B, V], 0 for tokens that truncation removed.

    ``temperature`` f32[B] (0 is greedy and gives the distribution at temperature 1), ``top_p`` f32[B] (1 keeps all),
    ``top_k`` i64[B] (0 keeps all). Truncation happens after temperature and the rest is renormalised.
    """
    scale = torch.where(temperature > 0, temperature, 1.0)
    logits = logits.float() if bool((scale == 1).all()) else logits.float() / scale[:, None]
    found = torch.softmax(logits, dim=-1)
    limited = (top_k > 0) | (top_p < 1)
    if not bool(limited.any()):
        return found
    ranked, order = found[limited].sort(dim=-1, descending=True)
    rank = torch.arange(ranked.shape[-1], device=ranked.device)
    before = ranked.cumsum(dim=-1) - ranked
    keep_k = torch.where(top_k[limited] > 0, top_k[limited], ranked.shape[-1])
    removed = (rank[None] >= keep_k[:, None]) | (before >= top_p[limited][:, None])
    removed[:, 0] = False  # the likeliest token always stays
    kept = torch.empty_like(ranked).scatter_(1, order, ranked.masked_fill(removed, 0.0))
    found[limited] = kept / kept.sum(dim=-1, keepdim=True)
    return found


BLOCK = 512
"""Tokens that are summed up before the search goes on inside."""


def draw(
    distribution: torch.Tensor, temperature: torch.Tensor, uniform: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token a row from f32[B, V]: tokens i64[B] and their log-probs f32[B].

    By inverting the cumulative distribution at ``uniform`` f64[B] in [0, 1). Blocks of tokens are added up in float64,
    because in float32 the tail of a large vocabulary is lost; then the search goes on inside the block that was hit. A
    token of probability 0 can never be drawn: its cumulative value equals its neighbour's.
    """
    first, inside, target = _block_of(distribution, uniform[:, None])
    # Rounding may put the target a hair behind the block's own sum: then its last possible token is meant.
    last = torch.searchsorted(inside, inside[:, -1:].contiguous()).clamp(max=inside.shape[-1] - 1)
    drawn = first + torch.minimum(torch.searchsorted(inside, target, right=True), last)
    drawn = drawn.squeeze(1).clamp(max=distribution.shape[-1] - 1)
    greedy = temperature == 0
    tokens = torch.where(greedy, distribution.argmax(dim=-1), drawn) if bool(greedy.any()) else drawn
    return tokens, distribution.gather(1, tokens[:, None]).squeeze(1).log()


def _block_of(
    distribution: torch.Tensor, uniform: torch.Tensor
) -> tuple[torch.Tensor | int, torch.Tensor, torch.Tensor]:
    """The block in which ``uniform`` [B, 1] falls: its first token, cumulative sums inside, and what to find there."""
    size = distribution.shape[-1]
    if size <= BLOCK:
        inside = distribution.double().cumsum(dim=-1)
        return 0, inside, uniform * inside[:, -1:]
    blocks = _block_sums(distribution).double().cumsum(dim=-1)
    target = uniform * blocks[:, -1:]
    block = torch.searchsorted(blocks, target, right=True).clamp(max=blocks.shape[-1] - 1)
    before = torch.where(block > 0, blocks.gather(1, (block - 1).clamp(min=0)), 0.0)
    places = block * BLOCK + torch.arange(BLOCK, device=block.device)
    found = distribution.gather(1, places.clamp(max=size - 1)).masked_fill_(places >= size, 0.0)
    return block * BLOCK, found.double().cumsum(dim=-1), target - before


def _block_sums(distribution: torch.Tensor) -> torch.Tensor:
    """Sums of BLOCK cells in a row, the last of what is left."""
    whole = distribution.shape[-1] // BLOCK * BLOCK
    sums, rest = distribution[:, :whole].unflatten(-1, (-1, BLOCK)).sum(dim=-1), distribution[:, whole:]
    return torch.cat([sums, rest.sum(dim=-1, keepdim=True)], dim=-1) if rest.shape[-1] else sums
