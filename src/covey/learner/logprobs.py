"""Log-probs, exact entropy and exact KL of given tokens under a model. The shift by one lives here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch.utils.checkpoint import checkpoint

from covey.learner.head import Head, trained_states
from covey.learner.picked import picked_and_entropy
from covey.types import MicroBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Terms = tuple[torch.Tensor, ...]

CELLS = 1 << 26
"""Logits that are held at once, [tokens x vocabulary]: 256 MiB in float32. What is beyond is computed in pieces."""


def token_logps(
    model: PreTrainedModel, micro: MicroBatch, entropy_grad: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-prob of each token given those before it, and the entropy of the distribution it was drawn from.

    Both are [B, S] in float32 (float64 for a float64 model), at the temperature each token was sampled at, 0 where not
    trained. The entropy is exact, -sum_v p_v log p_v, and carries a gradient only if asked for.
    Stream law: entry t describes token t, whose distribution is the model's output at t - 1. Logits are made for
    trained tokens alone, and never more than CELLS of them at once: pieces are computed again in the backward pass.
    """
    states, head = trained_states(model, micro)
    tokens, temperature = _targets(micro)

    def terms(states: torch.Tensor, tokens: torch.Tensor, temperature: torch.Tensor) -> Terms:
        return picked_and_entropy(_wide(head(states)), tokens, temperature, entropy_grad)

    logp, entropy = _in_pieces(terms, _vocabulary(head, states), states, tokens, temperature)
    return _spread(logp, micro), _spread(entropy, micro)


def token_divergences(
    model: PreTrainedModel,
    opened: Callable[[], AbstractContextManager[PreTrainedModel]],
    micro: MicroBatch,
    entropy_grad: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """As :func:`token_logps`, with KL(model, reference) over the whole vocabulary and the reference's log-probs.

    ``opened`` lends the reference; it may be the same model with its adapter off, so it is only open for its own pass.
    Four streams [B, S]: log-prob and entropy of ``model``, KL with gradient, log-prob of the reference.
    """
    states, head = trained_states(model, micro)
    with torch.no_grad(), opened() as reference:
        others, other_head = trained_states(reference, micro)
    tokens, temperature = _targets(micro)

    def terms(states: torch.Tensor, others: torch.Tensor, tokens: torch.Tensor, temperature: torch.Tensor) -> Terms:
        everything = _distribution(head, states, temperature)
        with torch.no_grad(), opened():
            other = _distribution(other_head, others, temperature)
        probability = everything.exp()
        # Where the probability is 0 its logarithm is -inf; their product is 0 and must not be NaN.
        divergence = (probability * torch.where(probability == 0, 0.0, everything - other)).sum(dim=-1)
        return _picked(everything, tokens), _entropy(everything, entropy_grad), divergence, _picked(other, tokens)

    found = _in_pieces(terms, 2 * _vocabulary(head, states), states, others, tokens, temperature)
    logp, entropy, divergence, ref = (_spread(values, micro) for values in found)
    return logp, entropy, divergence, ref


def _in_pieces(terms: Callable[..., Terms], width: int, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """``terms`` of inputs [N, ...] whose logits are ``width`` wide, a piece at a time if they are many."""
    size = max(1, CELLS // width)
    if inputs[0].shape[0] <= size:
        return list(terms(*inputs))
    pieces = list(zip(*(stream.split(size) for stream in inputs), strict=True))
    if torch.is_grad_enabled() and inputs[0].requires_grad:
        found = [checkpoint(terms, *piece, use_reentrant=False) for piece in pieces]
    else:
        found = [terms(*piece) for piece in pieces]
    return [torch.cat(parts) for parts in zip(*found, strict=True)]


def _targets(micro: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Trained tokens and their temperatures, [N] each."""
    predicted = micro.trained[:, 1:]
    return micro.tokens[:, 1:][predicted], micro.temperature[:, 1:][predicted]


@torch.no_grad()
def _vocabulary(head: Head, states: torch.Tensor) -> int:
    return head(states[:1]).shape[-1] if states.shape[0] else 1


def _wide(logits: torch.Tensor) -> torch.Tensor:
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _distribution(head: Head, states: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """Log-probs of the whole vocabulary for each trained token, [N, V], tempered."""
    logits = _wide(head(states))
    return torch.log_softmax(logits / temperature.to(logits.dtype)[:, None], dim=-1)


def _picked(everything: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return everything.gather(1, tokens[:, None]).squeeze(1)


def _entropy(everything: torch.Tensor, with_grad: bool) -> torch.Tensor:
    with torch.set_grad_enabled(with_grad and torch.is_grad_enabled()):
        probability = everything.exp()
        return -(probability * everything.masked_fill(probability == 0, 0.0)).sum(dim=-1)


def _spread(values: torch.Tensor, micro: MicroBatch) -> torch.Tensor:
    """One value a trained token, [N], back on [B, S]: token 0 has nothing before it."""
    mask = torch.nn.functional.pad(micro.trained[:, 1:], (1, 0))
    stream = torch.zeros(micro.tokens.shape, dtype=values.dtype, device=values.device)
    return stream.masked_scatter(mask, values)
