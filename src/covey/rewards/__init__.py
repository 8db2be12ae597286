"""Stage 5: rewards. The table maps run-file names to classes; ``module:function`` takes a user's own."""

from covey.rewards.base import ResponseReward, Reward, ScoreContext
from covey.rewards.code import CodeTests
from covey.rewards.compose import WeightedReward, check_gates
from covey.rewards.exact_number import ExactNumber
from covey.rewards.function import FunctionReward
from covey.rewards.gym import GymScore
from covey.rewards.math import MathAnswer
from covey.rewards.overlong import SoftOverlong
from covey.rewards.repetition import Repetition
from covey.rewards.score import Scorer, check_failures
from covey.rewards.tags import Tags

REWARDS: dict[str, type] = {
    "exact_number": ExactNumber,
    "tags": Tags,
    "gym": GymScore,
    "math": MathAnswer,
    "code": CodeTests,
    "overlong": SoftOverlong,
    "repetition": Repetition,
}

__all__ = [
    "REWARDS",
    "CodeTests",
    "ExactNumber",
    "FunctionReward",
    "GymScore",
    "MathAnswer",
    "Repetition",
    "ResponseReward",
    "Reward",
    "ScoreContext",
    "Scorer",
    "SoftOverlong",
    "Tags",
    "WeightedReward",
    "check_failures",
    "check_gates",
]
