"""What a policy loss is: named streams in, one value per token and typed metrics out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from covey.metrics.metric import Metric
from covey.types import LossInputs, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTerm:
    """A loss before aggregation. ``values`` is [B, S], finite where trained, anything elsewhere."""

    values: torch.Tensor
    metrics: Mapping[str, Metric]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutput:
    """``loss`` is already divided by the step's totals: adding it over micro-batches gives the step's loss."""

    loss: torch.Tensor
    metrics: Mapping[str, Metric]


class TokenLoss(Protocol):
    """A policy loss: pure, no state, no division."""

    def __call__(self, inputs: LossInputs, /) -> TokenTerm: ...


class Aggregation(Protocol):
    """Turns values per token [B, S] into this micro-batch's share of the step's loss (a scalar)."""

    def __call__(
        self, values: torch.Tensor, trained: torch.Tensor, segment: torch.Tensor, totals: Totals, /
    ) -> torch.Tensor: ...
