"""Kimi: policy gradient with a quadratic pull back to the old policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from covey.losses.base import TokenTerm
from covey.losses.ratio import kept, old_log_ratio
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Kimi:
    """-A log pi + (tau / 2) log(pi / pi_old)^2 (Kimi k1.5, arXiv 2501.12599, eq. 3, a token at a time).

    The gradient multiplier is A - tau log(pi / pi_old): no clip, but the pull grows with the distance.
    """

    tau: float = 0.1
    pulls: ClassVar[bool] = True
    ratio_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.tau >= 0:
            raise ValueError(f"tau must not be negative, got {self.tau}")

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        values = -kept(inputs, inputs.advantage) * kept(inputs, inputs.logp)
        return TokenTerm(values=values + self.tau / 2 * old_log_ratio(inputs).square(), metrics={})
