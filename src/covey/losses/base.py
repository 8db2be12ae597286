"""What a policy loss is: named streams in, one value per token and typed metrics out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from covey.metrics.metric import Metric
from covey.types import LossInputs


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
    """A policy loss: pure, no state, no division.

    A class may have ``needs``, a frozenset of "old_logp" (a pass before the first update, whatever else would do) or
    "old_entropy" (exact entropy of the policy before the first update); ``off_policy = True`` if it corrects for the
    sampler itself, so that no correction may be added; ``ratio_free = True`` if its policy term has no ratio to the old
    policy; ``pulls = True`` if a token without advantage has a gradient once the policy has moved.
    """

    def __call__(self, inputs: LossInputs, /) -> TokenTerm: ...


@runtime_checkable
class Surveying(Protocol):
    """A loss that compares a token with all others of the step: what it compares with is fixed before the first pass.

    Otherwise its choice would depend on how the step is split, and the sum law would not hold.
    """

    def survey(self, step: LossInputs, /) -> dict[str, float]:
        """Statistics of the step. ``step`` has all its trained tokens in one row, detached, under the old policy."""
        ...


class Aggregation(Protocol):
    """Turns values per token [B, S] into this micro-batch's share of the step's loss (a scalar)."""

    def __call__(self, values: torch.Tensor, inputs: LossInputs, /) -> torch.Tensor: ...
