"""Layers of a loaded model, exchanged in place for quicker ones that compute the same."""

from __future__ import annotations

from functools import cache

import torch

from covey.kernels.gated import QuickGated, is_gated
from covey.kernels.gradients import SummingEmbedding, is_plain_embedding
from covey.kernels.linear import QuickLinear, is_plain_linear
from covey.kernels.norm import QuickNorm, is_norm


def quicken(model: torch.nn.Module) -> None:
    """Have all layers of ``model`` be quick ones for which there is one; nothing happens if they are already.

    Weights and their names stay. A quick layer leaves to the layer it was whatever it is not made for: another device,
    another precision, parts that were exchanged since.
    """
    for module in model.modules():
        if is_plain_embedding(module):
            module.__class__ = SummingEmbedding
        elif torch.backends.mkldnn.is_available():
            if is_plain_linear(module):
                module.__class__ = QuickLinear
            elif is_gated(module):
                module.__class__ = _kind(QuickGated, type(module))
            elif is_norm(module):
                module.__class__ = _kind(QuickNorm, type(module))


@cache
def _kind(quick: type, plain: type) -> type:
    return type(f"Quick{plain.__name__}", (quick, plain), {})
