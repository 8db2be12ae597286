"""GSPO-token: the ratio of GSPO with a gradient for each token by itself."""

from __future__ import annotations

from dataclasses import dataclass

from covey.losses.base import TokenTerm
from covey.losses.clip import check_bounds, clipped
from covey.losses.ratio import kept, sequence_log_ratio
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class GSPOToken:
    """-min(s_t A_t, clip(s_t) A_t), s_t = sg(s) pi(t) / sg(pi(t)) (arXiv 2507.18071, eq. 13 and 14).

    Value and gradient are those of :class:`covey.losses.gspo.GSPO` under ``sequence_mean`` if the advantage is the same
    on all tokens of a response; unlike there, it may differ.
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        logp = kept(inputs, inputs.logp)
        ratio = (sequence_log_ratio(inputs, mean=True).detach() + logp - logp.detach()).exp()
        values, metrics = clipped(ratio, inputs, self.clip_low, self.clip_high)
        return TokenTerm(values=values, metrics=metrics)
