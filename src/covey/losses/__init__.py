"""Stage 8: per-token policy losses, their aggregation, KL and entropy terms. One file a loss."""

from covey.losses.cispo import CISPO
from covey.losses.clip import PPOClip
from covey.losses.clip_cov import ClipCov
from covey.losses.cpgd import CPGD
from covey.losses.dual_clip import DualClip
from covey.losses.gmpo import GMPO
from covey.losses.gspo import GSPO
from covey.losses.gspo_token import GSPOToken
from covey.losses.kimi import Kimi
from covey.losses.kl_cov import KLCov
from covey.losses.reduce import ConstantLength, PromptMean, SequenceMean, SequenceSum, TokenMean
from covey.losses.reinforce import Reinforce
from covey.losses.sapo import SAPO
from covey.losses.top_entropy import TopEntropy
from covey.losses.topr import TOPR
from covey.losses.vespo import VESPO

LOSSES: dict[str, type] = {
    "clip": PPOClip,
    "dual_clip": DualClip,
    "reinforce": Reinforce,
    "gspo": GSPO,
    "gspo_token": GSPOToken,
    "cispo": CISPO,
    "sapo": SAPO,
    "gmpo": GMPO,
    "topr": TOPR,
    "cpgd": CPGD,
    "vespo": VESPO,
    "kimi": Kimi,
    "clip_cov": ClipCov,
    "kl_cov": KLCov,
    "top_entropy": TopEntropy,
}
AGGREGATIONS: dict[str, type] = {
    "sequence_mean": SequenceMean,
    "sequence_sum": SequenceSum,
    "token_mean": TokenMean,
    "prompt_mean": PromptMean,
    "constant_length": ConstantLength,
}

__all__ = [
    "AGGREGATIONS",
    "CISPO",
    "CPGD",
    "GMPO",
    "GSPO",
    "LOSSES",
    "SAPO",
    "TOPR",
    "VESPO",
    "ClipCov",
    "ConstantLength",
    "DualClip",
    "GSPOToken",
    "KLCov",
    "Kimi",
    "PPOClip",
    "PromptMean",
    "Reinforce",
    "SequenceMean",
    "SequenceSum",
    "TokenMean",
    "TopEntropy",
]
