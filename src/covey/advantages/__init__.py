"""Stage 6: scored groups become credited groups. One file an estimator; the table maps run-file names to classes."""

from covey.advantages.base import Advantage, Remembering
from covey.advantages.batch_std import BatchStd
from covey.advantages.bnpo import BNPO
from covey.advantages.gdpo import GDPO
from covey.advantages.gpg import GPG
from covey.advantages.group_mean import GroupMean
from covey.advantages.grpo import GRPO
from covey.advantages.hybrid import Hybrid
from covey.advantages.hybrid_running import HybridRunning
from covey.advantages.maxrl import MaxRL
from covey.advantages.opo import OPO
from covey.advantages.pass_at_k import PassAtKTraining
from covey.advantages.pkpo import PKPO
from covey.advantages.process import Process
from covey.advantages.reinforce_pp import ReinforcePP
from covey.advantages.reinforce_pp_baseline import ReinforcePPBaseline
from covey.advantages.remax import ReMax
from covey.advantages.rloo import RLOO
from covey.advantages.spo import SPO

ADVANTAGES: dict[str, type] = {
    "grpo": GRPO,
    "group_mean": GroupMean,
    "batch_std": BatchStd,
    "rloo": RLOO,
    "remax": ReMax,
    "reinforce_pp": ReinforcePP,
    "reinforce_pp_baseline": ReinforcePPBaseline,
    "opo": OPO,
    "gpg": GPG,
    "bnpo": BNPO,
    "maxrl": MaxRL,
    "pkpo": PKPO,
    "pass_at_k": PassAtKTraining,
    "gdpo": GDPO,
    "hybrid": Hybrid,
    "hybrid_running": HybridRunning,
    "spo": SPO,
    "process": Process,
}

__all__ = [
    "ADVANTAGES",
    "BNPO",
    "GDPO",
    "GPG",
    "GRPO",
    "OPO",
    "PKPO",
    "RLOO",
    "SPO",
    "Advantage",
    "BatchStd",
    "GroupMean",
    "Hybrid",
    "HybridRunning",
    "MaxRL",
    "PassAtKTraining",
    "Process",
    "ReMax",
    "ReinforcePP",
    "ReinforcePPBaseline",
    "Remembering",
]
