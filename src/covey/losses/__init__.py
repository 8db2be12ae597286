"""Stage 8: per-token policy losses, their aggregation, KL and entropy terms. One file a loss."""

from covey.losses.clip import PPOClip
from covey.losses.reduce import ConstantLength, SequenceMean, TokenMean

LOSSES: dict[str, type] = {
    "clip": PPOClip,
}
AGGREGATIONS: dict[str, type] = {
    "sequence_mean": SequenceMean,
    "token_mean": TokenMean,
    "constant_length": ConstantLength,
}

__all__ = ["AGGREGATIONS", "LOSSES", "ConstantLength", "PPOClip", "SequenceMean", "TokenMean"]
