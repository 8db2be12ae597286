"""Only the tokens where the policy was undecided are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.base import TokenTerm
from covey.losses.clip import check_bounds, clipped
from covey.losses.ratio import kept, old_log_ratio
from covey.metrics.metric import masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class TopEntropy:
    """The clipped surrogate on the ``share`` of tokens with the highest entropy, 0 on the rest (arXiv 2506.01939).

    The bound is the quantile over the whole optimizer step of the exact entropy before its first update.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    share: float = 0.2
    needs: ClassVar[frozenset[str]] = frozenset({"old_entropy"})

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)
        if not 0 < self.share <= 1:
            raise ValueError(f"share in (0, 1] expected, got {self.share}")

    def survey(self, step: LossInputs, /) -> dict[str, float]:
        found = _entropy(step)[step.trained].sort(descending=True).values
        return {"entropy_bound": float(found[max(1, int(self.share * found.numel())) - 1])}

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        values, metrics = clipped(old_log_ratio(inputs).exp(), inputs, self.clip_low, self.clip_high)
        picked = (_entropy(inputs) >= inputs.statistics["entropy_bound"]) & inputs.trained
        return TokenTerm(
            values=torch.where(picked, values, torch.zeros_like(values)),
            metrics={**metrics, "top_entropy/share": masked_mean(picked, inputs.trained)},
        )


def _entropy(inputs: LossInputs) -> torch.Tensor:
    if inputs.old_entropy is None:
        raise ValueError("top_entropy needs the entropy before the first update: learner.annotate adds it")
    return kept(inputs, inputs.old_entropy).double()
