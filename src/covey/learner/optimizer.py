"""AdamW: fused, with its moments in 8 bits, or with its moments where the GPU's memory does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from covey.errors import MissingExtraError, ModelError

States = Literal["float32", "8bit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerKnobs:
    """AdamW (arXiv 1711.05101). Weight decay leaves biases and norm gains alone.

    ``states`` in 8 bits, in blocks with a scale each (arXiv 2110.02861), take 2 bytes a weight in place of 8; weights
    of fewer than 4,096 cells keep float32. ``paged`` ones lie in memory that the GPU's driver moves to the CPU's and
    back. Both are bitsandbytes'.
    """

    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    states: States = "float32"
    paged: bool = False


def make_optimizer(trained: Sequence[torch.nn.Parameter], lr: float, knobs: OptimizerKnobs) -> torch.optim.Optimizer:
    """An optimizer of these weights. Raises MissingExtraError, or ModelError for paged states without a GPU."""
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": knobs.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups, kind = [group for group in groups if group["params"]], trained[0].device.type
    common: dict[str, Any] = {"lr": lr, "betas": knobs.betas, "eps": knobs.eps}
    if knobs.states == "float32" and not knobs.paged:
        # One kernel over all weights in place of a dozen small ones each.
        return torch.optim.AdamW(groups, fused=kind in ("cpu", "cuda"), **common)
    if knobs.paged and kind != "cuda":
        raise ModelError(
            f"optim.paged moves moments out of a GPU's memory, but the model is on {kind}: set it to false"
        )
    bits = 8 if knobs.states == "8bit" else 32
    return bitsandbytes("optim.states and optim.paged").optim.AdamW(
        groups, optim_bits=bits, is_paged=knobs.paged, **common
    )


def bitsandbytes(purpose: str) -> Any:
    """The library. Raises MissingExtraError."""
    try:
        import bitsandbytes as library
    except ImportError as error:
        raise MissingExtraError("bitsandbytes", "bitsandbytes", purpose) from error
    return library
