"""Log-probs and exact entropy of given tokens under a model. The shift by one lives here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from covey.types import MicroBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def token_logps(
    model: PreTrainedModel, micro: MicroBatch, temperature: float, entropy_grad: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-prob of each token given those before it, and the entropy of the distribution it was drawn from.

    Both are [B, S] in float32 (float64 for a float64 model), at the sampling temperature, 0 where not trained.
    The entropy is exact, -sum_v p_v log p_v, and carries a gradient only if asked for.
    Stream law: entry t describes token t, whose distribution is the model's output at t - 1.
    """
    out = model(
        input_ids=micro.tokens,
        attention_mask=micro.attended.long(),
        position_ids=micro.positions,
        use_cache=False,
    )
    predicted = micro.trained[:, 1:]
    logits = out.logits[:, :-1][predicted]
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    everything = torch.log_softmax(logits / temperature, dim=-1)
    picked = everything.gather(1, micro.tokens[:, 1:][predicted][:, None]).squeeze(1)
    with torch.set_grad_enabled(entropy_grad and torch.is_grad_enabled()):
        probability = everything.exp()  # where it is 0 the logarithm is -inf, and their product would be NaN
        spread = -(probability * everything.masked_fill(probability == 0, 0.0)).sum(dim=-1)
    logp = torch.zeros(micro.tokens.shape, dtype=picked.dtype, device=picked.device)
    entropy = torch.zeros_like(logp)
    return logp.masked_scatter(_shifted(predicted), picked), entropy.masked_scatter(_shifted(predicted), spread)


def _shifted(predicted: torch.Tensor) -> torch.Tensor:
    """Put the mask of tokens 1.. back on all columns: token 0 has nothing before it."""
    return torch.nn.functional.pad(predicted, (1, 0))
