"""Stage 6: scored groups become credited groups. One file an estimator; the table maps run-file names to classes."""

from covey.advantages.base import Advantage
from covey.advantages.group_mean import GroupMean
from covey.advantages.grpo import GRPO

ADVANTAGES: dict[str, type] = {
    "grpo": GRPO,
    "group_mean": GroupMean,
}

__all__ = ["ADVANTAGES", "GRPO", "Advantage", "GroupMean"]
