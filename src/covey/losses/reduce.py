"""How values per token become one number. The denominators are data: counted once for the whole optimizer step.

Every class divides by a count over all micro-batches and ranks, so the sum over any split of the step is the same
(the sum law). Cells that are not trained may hold NaN or infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.losses.sequence import trained_per_sequence
from covey.types import LossInputs


def _kept(values: torch.Tensor, inputs: LossInputs) -> torch.Tensor:
    return torch.where(inputs.trained, values, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceMean:
    """(1/B) sum_i (1/T_i) sum_t l_it: the GRPO paper's 1/|o_i| (arXiv 2402.03300, eq. 3).

    Every response weighs the same, so a token of a short response weighs more than one of a long response.
    """

    def __call__(self, values: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        lengths = trained_per_sequence(inputs.trained, inputs.segment).clamp(min=1)
        return (_kept(values, inputs) / lengths).sum() / inputs.totals.sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceSum:
    """(1/B) sum_i sum_t l_it: with the ``reinforce`` loss, the textbook policy gradient. Long responses weigh more."""

    def __call__(self, values: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        return _kept(values, inputs).sum() / inputs.totals.sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMean:
    """(1/N) sum_it l_it over all trained tokens of the step (DAPO as it is implemented, arXiv 2503.14476)."""

    def __call__(self, values: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        return _kept(values, inputs).sum() / inputs.totals.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMean:
    """(1/P) sum over prompts of the token mean inside the prompt's group (DAPO as its paper writes it; 2510.13786).

    Every prompt weighs the same, however many or long its responses are.
    """

    def __call__(self, values: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        if inputs.group_tokens is None:
            raise ValueError("prompt_mean needs the stream group_tokens, which covey.batching.rows makes")
        tokens = torch.where(inputs.trained, inputs.group_tokens, 1)
        return (_kept(values, inputs) / tokens).sum() / inputs.totals.groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantLength:
    """(1/(B L)) sum_it l_it with a constant L, by default the response limit (Dr. GRPO, arXiv 2503.20783)."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1 token, got {self.length}")

    def __call__(self, values: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor:
        return _kept(values, inputs).sum() / (inputs.totals.sequences * self.length)
