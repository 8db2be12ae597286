"""Log-prob of one token and entropy of each distribution, without keeping more of [tokens x vocabulary] than needed."""

from __future__ import annotations

import torch


def picked_and_entropy(
    logits: torch.Tensor, tokens: torch.Tensor, temperature: torch.Tensor, entropy_grad: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-prob of ``tokens`` [N] and entropy, [N] each, under softmax(logits [N, V] / temperature [N]).

    Both have a gradient, the entropy only if asked for. Beside the logits, one tensor of their size is kept for the
    backward pass and one is made there; composed of single operations it would be four and five.
    """
    logp, entropy = _PickedAndEntropy.apply(logits, tokens, temperature.to(logits.dtype))  # type: ignore[misc]
    return logp, entropy if entropy_grad else entropy.detach()


class _PickedAndEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, tokens, temperature):  # type: ignore[override]
        cooled = bool((temperature != 1).any())
        everything = torch.log_softmax(logits / temperature[:, None] if cooled else logits, dim=-1)
        # A token that is ruled out has p log p = 0 (-inf), which is 0. NaN logits still show in the log-prob.
        entropy = -everything.exp().mul_(everything).nansum(dim=-1)
        ctx.save_for_backward(everything, tokens, temperature, entropy)
        ctx.cooled = cooled
        ctx.set_materialize_grads(False)
        return everything.gather(1, tokens[:, None]).squeeze(1), entropy

    @staticmethod
    def backward(ctx, grad_logp, grad_entropy):  # type: ignore[override]
        everything, tokens, temperature, entropy = ctx.saved_tensors
        if grad_logp is None and grad_entropy is None:
            return None, None, None
        grad_logp = torch.zeros_like(entropy) if grad_logp is None else grad_logp
        grad = everything.exp()
        if grad_entropy is not None:  # dH/dz_v = -p_v (log p_v + H)
            slope = (everything + entropy[:, None]).mul_(grad_entropy[:, None]).masked_fill_(grad == 0, 0.0)
            grad.mul_(slope.add_(grad_logp[:, None]).neg_())
        else:
            grad.mul_(-grad_logp[:, None])
        grad.scatter_add_(1, tokens[:, None], grad_logp[:, None])
        return grad.div_(temperature[:, None]) if ctx.cooled else grad, None, None
