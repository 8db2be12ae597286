"""TOPR: right answers are imitated in full, wrong ones only as far as the policy would still give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.losses.base import TokenTerm
from covey.losses.ratio import LOG_RATIO_LIMIT, kept, log_ratio
from covey.losses.sequence import sequence_sum
from covey.metrics.metric import masked_mean
from covey.types import LossInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class TOPR:
    """-sg(w) A log pi, w = 1 for A >= 0, else min(pi(o) / mu(o), 1) of the whole response (arXiv 2503.14286, eq. 8).

    mu is the sampler, so this corrects for stale samples itself. Meant for ``sequence_sum``.
    """

    off_policy: ClassVar[bool] = True

    def __call__(self, inputs: LossInputs, /) -> TokenTerm:
        sampler = inputs.old_logp if inputs.behavior_logp is None else inputs.behavior_logp
        advantage, trained = kept(inputs, inputs.advantage), inputs.trained
        with torch.no_grad():
            tokens = log_ratio(inputs.logp, sampler, trained)
            whole = sequence_sum(tokens, trained, inputs.segment).clamp(-LOG_RATIO_LIMIT, 0.0).exp()
            weight = torch.where(advantage >= 0, torch.ones_like(whole), whole)
        values = -weight * advantage * kept(inputs, inputs.logp)
        return TokenTerm(values=values, metrics={"topr/weight": masked_mean(weight, trained & (advantage < 0))})
