"""Log-probs, exact entropy and exact KL of given tokens under a model. The shift by one lives here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch

from covey.types import MicroBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def token_logps(
    model: PreTrainedModel, micro: MicroBatch, entropy_grad: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-prob of each token given those before it, and the entropy of the distribution it was drawn from.

    Both are [B, S] in float32 (float64 for a float64 model), at the temperature each token was sampled at, 0 where not
    trained. The entropy is exact, -sum_v p_v log p_v, and carries a gradient only if asked for.
    Stream law: entry t describes token t, whose distribution is the model's output at t - 1.
    """
    everything = _distributions(model, micro)
    return _picked(everything, micro), _spread(_entropy(everything, entropy_grad), micro)


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
    everything = _distributions(model, micro)
    with torch.no_grad(), opened() as reference:
        other = _distributions(reference, micro)
    probability = everything.exp()
    # Where the probability is 0 its logarithm is -inf; their product is 0 and must not be NaN.
    divergence = (probability * torch.where(probability == 0, 0.0, everything - other)).sum(dim=-1)
    return (
        _picked(everything, micro),
        _spread(_entropy(everything, entropy_grad), micro),
        _spread(divergence, micro),
        _picked(other, micro),
    )


def _distributions(model: PreTrainedModel, micro: MicroBatch) -> torch.Tensor:
    """Log-probs of the whole vocabulary for each trained token, [N, V], tempered."""
    out = model(
        input_ids=micro.tokens,
        attention_mask=micro.attended.long(),
        position_ids=micro.positions,
        use_cache=False,
    )
    predicted = micro.trained[:, 1:]
    logits = out.logits[:, :-1][predicted]
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    temperature = micro.temperature[:, 1:][predicted].to(logits.dtype)
    return torch.log_softmax(logits / temperature[:, None], dim=-1)


def _picked(everything: torch.Tensor, micro: MicroBatch) -> torch.Tensor:
    predicted = micro.trained[:, 1:]
    return _spread(everything.gather(1, micro.tokens[:, 1:][predicted][:, None]).squeeze(1), micro)


def _entropy(everything: torch.Tensor, with_grad: bool) -> torch.Tensor:
    with torch.set_grad_enabled(with_grad and torch.is_grad_enabled()):
        probability = everything.exp()
        return -(probability * everything.masked_fill(probability == 0, 0.0)).sum(dim=-1)


def _spread(values: torch.Tensor, micro: MicroBatch) -> torch.Tensor:
    """One value a trained token, [N], back on [B, S]: token 0 has nothing before it."""
    mask = torch.nn.functional.pad(micro.trained[:, 1:], (1, 0))
    stream = torch.zeros(micro.tokens.shape, dtype=values.dtype, device=values.device)
    return stream.masked_scatter(mask, values)
