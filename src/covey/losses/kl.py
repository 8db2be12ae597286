"""Estimators of KL(policy, reference) per token (J. Schulman, "Approximating KL divergence", 2020).

L = log(policy / reference) of the sampled token. As values under the policy, k1 and k3 are unbiased, k2 is not. What
matters in a loss is the expected gradient, and that is another matter: see the table in docs/algorithms.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from covey.losses.ratio import LOG_RATIO_LIMIT, kept, log_ratio, old_log_ratio
from covey.types import LossInputs

Estimator = Literal["k1", "k2", "k3", "straight_through", "exact"]
Where = Literal["loss", "reward"]


def k1(log_ratio: torch.Tensor) -> torch.Tensor:
    """L: signed. In the reward its gradient is that of KL(policy, reference); as a loss it is pure noise."""
    return log_ratio


def k2(log_ratio: torch.Tensor) -> torch.Tensor:
    """L^2 / 2: biased as a value, but on policy its gradient as a loss is that of KL(policy, reference)."""
    return log_ratio.square() / 2


def k3(log_ratio: torch.Tensor) -> torch.Tensor:
    """exp(-L) - 1 + L: never negative, unbiased, of small variance (GRPO, arXiv 2402.03300, eq. 4).

    As a loss its gradient on policy is that of the forward divergence KL(reference, policy).
    """
    return torch.expm1(-log_ratio) + log_ratio


def straight_through(log_ratio: torch.Tensor) -> torch.Tensor:
    """The value of k3 with the gradient of k2."""
    quadratic = k2(log_ratio)
    return quadratic + (k3(log_ratio) - quadratic).detach()


ESTIMATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "k1": k1,
    "k2": k2,
    "k3": k3,
    "straight_through": straight_through,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KLTerm:
    """How the divergence from the reference enters: which estimator, in the loss or in the reward.

    ``unbiased`` multiplies by pi / pi_old and lets the gradient through it: on samples of the old policy, the gradient
    of k3 is then that of KL(policy, reference) (DeepSeek-V3.2, eq. 7).
    """

    estimator: Estimator = "k3"
    where: Where = "loss"
    unbiased: bool = False

    def __post_init__(self) -> None:
        if self.estimator == "exact" and self.where == "reward":
            raise ValueError(
                'kl.estimator = "exact" cannot stand in the reward: the divergence of a token\'s distribution is the '
                'same whatever token was drawn there, so it credits none of them. Use k1, or where = "loss"'
            )
        if self.unbiased and (self.estimator in ("exact", "straight_through") or self.where == "reward"):
            raise ValueError(
                "kl.unbiased lets the ratio carry the gradient of k1, k2 or k3 in the loss; here there is one already"
            )

    def __call__(self, inputs: LossInputs, /) -> torch.Tensor:
        """KL a token, [B, S], with gradient; 0 where not trained."""
        if self.estimator == "exact":
            if inputs.kl_exact is None:
                raise ValueError("the exact KL needs the whole distributions: the learner computes it in the same pass")
            return kept(inputs, inputs.kl_exact)
        values = ESTIMATORS[self.estimator](reference_log_ratio(inputs))
        return values * old_log_ratio(inputs).exp() if self.unbiased else values

    def of_array(self, log_ratio: np.ndarray) -> np.ndarray:
        """The estimate for each log-ratio f64[T], clamped: as a penalty in the reward, where nothing has a gradient."""
        clamped = torch.from_numpy(np.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
        return ESTIMATORS[self.estimator](clamped).numpy()


def reference_log_ratio(inputs: LossInputs) -> torch.Tensor:
    """log(policy / reference) of each token, [B, S]; 0 where not trained."""
    if inputs.ref_logp is None:
        raise ValueError("a KL term needs reference log-probs: learner.annotate adds them")
    return log_ratio(inputs.logp, inputs.ref_logp, inputs.trained)
