"""Stage 5: rewards. The table maps run-file names to classes; ``module:function`` takes a user's own."""

from covey.rewards.base import Choosy, DependentReward, ResponseReward, Reward, ScoreContext
from covey.rewards.code import CodeTests
from covey.rewards.compose import WeightedReward, check_links
from covey.rewards.exact_number import ExactNumber
from covey.rewards.fit import judgeable
from covey.rewards.function import FunctionReward, own_reward
from covey.rewards.gym import GymScore
from covey.rewards.math import MathAnswer
from covey.rewards.overlong import SoftOverlong
from covey.rewards.repetition import Repetition
from covey.rewards.rubric import RubricReward, is_rubric
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
    "Choosy",
    "CodeTests",
    "DependentReward",
    "ExactNumber",
    "FunctionReward",
    "GymScore",
    "MathAnswer",
    "Repetition",
    "ResponseReward",
    "Reward",
    "RubricReward",
    "ScoreContext",
    "Scorer",
    "SoftOverlong",
    "Tags",
    "WeightedReward",
    "check_failures",
    "check_links",
    "is_rubric",
    "judgeable",
    "own_reward",
]
