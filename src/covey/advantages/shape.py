"""Between scores and credit: reward clipping and scaling, truncated responses, chosen tokens, KL in the reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from covey.advantages.base import usable_rewards
from covey.advantages.tokens import AllTokens, TokenChoice
from covey.types import ScoredGroup, Shaped

Truncated = Literal["keep", "mask", "drop"]
"""Responses that ran into the token limit: trained like others; in the baseline but not in the loss; in neither."""

ROUNDING = 1e-5
"""Nats by which two passes over the same tokens may differ in single precision."""

Divergence = Callable[[np.ndarray], np.ndarray]
"""An estimator of KL a token from log(policy / reference), f64[T]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """Turns totals into what credit is computed from. Scores, pass rates and records keep the raw numbers.

    ``scale`` is applied before ``clip`` (low, high). A response without a trained token leaves its group: a baseline
    must not move by a response that cannot learn from it. The exception is ``truncated = "mask"``, which says so.
    """

    scale: float = 1.0
    clip: tuple[float, float] | None = None
    truncated: Truncated = "keep"
    tokens: TokenChoice = field(default_factory=AllTokens)

    def __post_init__(self) -> None:
        if not np.isfinite(self.scale) or (self.clip is not None and not self.clip[0] <= self.clip[1]):
            raise ValueError(f"a finite scale and clip = [low, high] expected, got {self.scale} and {self.clip}")

    def __call__(
        self,
        groups: Sequence[ScoredGroup],
        ref_logps: Sequence[Sequence[np.ndarray]] | None = None,
        kl_coef: float = 0.0,
        divergence: Divergence | None = None,
    ) -> list[ScoredGroup]:
        """Shape every group. ``ref_logps``: one f32[T] a member, where a KL penalty of ``kl_coef`` is in the reward.

        The penalty of a token is ``kl_coef * divergence(log-prob it was sampled with - reference log-prob)``.
        """
        shaped = []
        for i, group in enumerate(groups):
            chosen = [self.tokens(member) for member in group.group.members]
            found = self._shaped(group, chosen)
            if ref_logps is not None and divergence is not None:
                found = replace(
                    found,
                    ref_logp=tuple(ref_logps[i]),
                    penalty=tuple(
                        np.where(mask, kl_coef * divergence(_ratio(member.logp, ref, mask)), 0.0)
                        for member, ref, mask in zip(group.group.members, ref_logps[i], chosen, strict=True)
                    ),
                )
            shaped.append(replace(group, shaped=found))
        return shaped

    def _shaped(self, group: ScoredGroup, trained: list[np.ndarray]) -> Shaped:
        members = group.group.members
        greedy = group.greedy.total if group.greedy is not None else None
        *outcomes, baseline = usable_rewards([*(score.total for score in group.scores), greedy]) * self.scale
        outcome = np.array(outcomes)
        if self.clip is not None:  # NaN stays NaN
            outcome, baseline = np.clip(outcome, *self.clip), np.clip(baseline, *self.clip)
        outcome[[not mask.any() for mask in trained]] = np.nan
        cut = np.array([member.finish == "length" for member in members], dtype=bool)
        if self.truncated == "drop":
            outcome[cut] = np.nan
        if self.truncated != "keep":
            trained = [mask & ~gone for mask, gone in zip(trained, cut, strict=True)]
        return Shaped(outcome=outcome, trained=tuple(trained), greedy=float(baseline))


def _ratio(logp: np.ndarray, ref: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """log(policy / reference) f64[T], 0 where not trained, and where it is within the rounding of two passes.

    Otherwise the noise of single precision would make equal answers differ as long as the policy is the reference.
    """
    ratio = np.where(mask, logp.astype(np.float64), 0.0) - np.where(mask, ref.astype(np.float64), 0.0)
    return np.where(np.abs(ratio) <= ROUNDING, 0.0, ratio)
