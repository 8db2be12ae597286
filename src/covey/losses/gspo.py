"""GSPO: one ratio a response, its geometric mean over tokens, clipped as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from covey.losses.base import TokenTerm
from covey.losses.clip import check_bounds, clipped
from covey.losses.ratio import sequence_log_ratio
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class GSPO:
    """-min(s A, clip(s) A), s = (pi(o) / pi_old(o))^(1/T) (arXiv 2507.18071, eq. 5 and 7).

    s is close to 1, hence the narrow bounds. Meant for ``sequence_mean``, where each response counts once.
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        values, metrics = clipped(sequence_log_ratio(inputs, mean=True).exp(), inputs, self.clip_low, self.clip_high)
        return TokenTerm(values=values, metrics=metrics)
