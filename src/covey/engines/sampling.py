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


def sampled_logp(
    logits: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor, top_k: torch.Tensor
) -> torch.Tensor:
    """Log-probs f32[B, V] of the distribution that is sampled from, -inf for tokens that truncation removed.

    ``temperature`` f32[B] (0 is greedy and gives the log-probs at temperature 1), ``top_p`` f32[B] (1 keeps all),
    ``top_k`` i64[B] (0 keeps all). Truncation happens after temperature and the rest is renormalised.
    """
    scale = torch.where(temperature > 0, temperature, 1.0)
    logits = logits.float() if bool((scale == 1).all()) else logits.float() / scale[:, None]
    logp = torch.log_softmax(logits, dim=-1)
    limited = (top_k > 0) | (top_p < 1)
    if not bool(limited.any()):
        return logp
    ranked, order = logp[limited].sort(dim=-1, descending=True)
    rank = torch.arange(ranked.shape[-1], device=ranked.device)
    before = ranked.exp().cumsum(dim=-1) - ranked.exp()
    keep_k = torch.where(top_k[limited] > 0, top_k[limited], ranked.shape[-1])
    removed = (rank[None] >= keep_k[:, None]) | (before >= top_p[limited][:, None])
    removed[:, 0] = False  # the likeliest token always stays
    kept = torch.empty_like(ranked).scatter_(1, order, ranked.masked_fill(removed, -torch.inf))
    logp = logp.clone()
    logp[limited] = torch.log_softmax(kept, dim=-1)
    return logp


BLOCK = 512
"""Tokens that are summed up before the search goes on inside."""


def draw(logp: torch.Tensor, temperature: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token a row by inverting the cumulative distribution: tokens i64[B] and their log-probs f32[B].

    ``uniform`` f64[B] in [0, 1). Blocks of tokens are added up in float64, because in float32 the tail of a large
    vocabulary is lost; then the search goes on inside the block that was hit. A token of probability 0 can never be
    drawn: its cumulative value equals its neighbour's.
    """
    size = logp.shape[-1]
    width = min(size, BLOCK)
    padded = torch.nn.functional.pad(logp, (0, -size % width), value=-torch.inf).exp().unflatten(-1, (-1, width))
    blocks = padded.sum(dim=-1).double().cumsum(dim=-1)
    target = uniform[:, None] * blocks[:, -1:]
    block = torch.searchsorted(blocks, target, right=True).clamp(max=blocks.shape[-1] - 1)
    before = torch.where(block > 0, blocks.gather(1, (block - 1).clamp(min=0)), 0.0)
    inside = padded[torch.arange(len(padded), device=logp.device), block.squeeze(1)].double().cumsum(dim=-1)
    # Rounding may put the target a hair behind the block's own sum: then its last possible token is meant.
    last = torch.searchsorted(inside, inside[:, -1:].contiguous()).clamp(max=width - 1)
    place = torch.minimum(torch.searchsorted(inside, target - before, right=True), last)
    drawn = (block * width + place).squeeze(1).clamp(max=size - 1)
    greedy = temperature == 0
    tokens = torch.where(greedy, logp.argmax(dim=-1), drawn) if bool(greedy.any()) else drawn
    return tokens, logp.gather(1, tokens[:, None]).squeeze(1)
