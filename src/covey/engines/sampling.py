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
    logp = torch.log_softmax(logits.float() / scale[:, None], dim=-1)
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


def draw(logp: torch.Tensor, temperature: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token a row by inverting the cumulative distribution: tokens i64[B] and their log-probs f32[B].

    ``uniform`` f64[B] in [0, 1). The sum runs in float64: in float32 the tail of a large vocabulary is lost. A token
    of probability 0 can never be drawn, because its cumulative value equals its neighbour's.
    """
    cumulative = logp.double().exp().cumsum(dim=-1)
    target = uniform[:, None] * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True).squeeze(-1).clamp(max=logp.shape[-1] - 1)
    tokens = torch.where(temperature > 0, drawn, logp.argmax(dim=-1))
    return tokens, logp.gather(1, tokens[:, None]).squeeze(1)
