"""Measured values and step numbers become coefficients. One file a rule; two tables for the run file."""

from covey.controllers.adaptive_entropy import AdaptiveEntropy
from covey.controllers.band import Band
from covey.controllers.base import Controller
from covey.controllers.pass_rates import PassRates
from covey.controllers.ramp import RAMPS, Constant, Cosine, Linear
from covey.controllers.ziegler import Ziegler

KL_CONTROLLERS: dict[str, type] = {"fixed": Constant, "ziegler": Ziegler, "band": Band}
ENTROPY_CONTROLLERS: dict[str, type] = {
    "fixed": Constant,
    "linear": Linear,
    "cosine": Cosine,
    "adaptive": AdaptiveEntropy,
}

__all__ = ["ENTROPY_CONTROLLERS", "KL_CONTROLLERS", "RAMPS", "Controller", "PassRates"]
