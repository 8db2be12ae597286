"""REINFORCE: the policy gradient itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from covey.losses.base import TokenTerm
from covey.losses.ratio import kept
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforce:
    """-A log pi (Williams 1992; the loss of GPG, arXiv 2504.02546). No ratio, so nothing is clipped.

    On policy its gradient is that of the clipped surrogate. With repeated updates or a stale sampler it is biased
    unless a correction weighs it.
    """

    ratio_free: ClassVar[bool] = True

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        return TokenTerm(values=-kept(inputs, inputs.advantage) * kept(inputs, inputs.logp), metrics={})
