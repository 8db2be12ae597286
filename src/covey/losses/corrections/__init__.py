"""Corrections for a sampler that is not quite the policy before the batch. One file each."""

from covey.losses.corrections.geometric import Geometric
from covey.losses.corrections.icepop import IcePop
from covey.losses.corrections.k3_filter import K3Filter
from covey.losses.corrections.opsm import OPSM
from covey.losses.corrections.sequence_mis import SequenceMIS
from covey.losses.corrections.sequence_tis import SequenceTIS
from covey.losses.corrections.token_mis import TokenMIS
from covey.losses.corrections.token_tis import TokenTIS

CORRECTIONS: dict[str, type] = {
    "token_tis": TokenTIS,
    "token_mis": TokenMIS,
    "icepop": IcePop,
    "sequence_tis": SequenceTIS,
    "sequence_mis": SequenceMIS,
    "geometric": Geometric,
    "k3_filter": K3Filter,
    "opsm": OPSM,
}

__all__ = [
    "CORRECTIONS",
    "OPSM",
    "Geometric",
    "IcePop",
    "K3Filter",
    "SequenceMIS",
    "SequenceTIS",
    "TokenMIS",
    "TokenTIS",
]
