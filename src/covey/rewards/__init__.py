"""Stage 5: rewards. The table maps run-file names to classes; ``module:function`` takes a user's own."""

from covey.rewards.base import Choosy, DependentReward, ResponseReward, Reward, ScoreContext
from covey.rewards.brevity import Brevity
from covey.rewards.code import CodeTests
from covey.rewards.comparisons import PairwiseJudge
from covey.rewards.compose import WeightedReward, check_links
from covey.rewards.cosine_length import CosineLength
from covey.rewards.edit_similarity import EditSimilarity
from covey.rewards.exact_number import ExactNumber
from covey.rewards.fit import judgeable
from covey.rewards.function import FunctionReward, own_reward
from covey.rewards.gym import GymScore
from covey.rewards.json_schema import JsonSchema
from covey.rewards.judge import LLMJudge
from covey.rewards.language import SameLanguage
from covey.rewards.length_budget import LengthBudget
from covey.rewards.math import MathAnswer
from covey.rewards.multiple_choice import MultipleChoice
from covey.rewards.number_match import NumberMatch
from covey.rewards.overlong import SoftOverlong
from covey.rewards.pattern import Pattern
from covey.rewards.repetition import Repetition
from covey.rewards.repetition_wrong import WrongRepetition
from covey.rewards.reward_model import RewardModel
from covey.rewards.rubric import RubricReward, is_rubric
from covey.rewards.score import Scorer, check_failures
from covey.rewards.smoothing import MeanOf
from covey.rewards.string_match import StringMatch
from covey.rewards.tags import Tags
from covey.rewards.tool_calls import ToolCalls
from covey.rewards.within_budget import WithinBudget
from covey.rewards.xml import Xml

REWARDS: dict[str, type] = {
    "exact_number": ExactNumber,
    "tags": Tags,
    "gym": GymScore,
    "math": MathAnswer,
    "code": CodeTests,
    "overlong": SoftOverlong,
    "repetition": Repetition,
    "brevity": Brevity,
    "cosine_length": CosineLength,
    "edit_similarity": EditSimilarity,
    "json_schema": JsonSchema,
    "language": SameLanguage,
    "length_budget": LengthBudget,
    "choice": MultipleChoice,
    "number": NumberMatch,
    "regex": Pattern,
    "wrong_repetition": WrongRepetition,
    "string": StringMatch,
    "tool_calls": ToolCalls,
    "within_budget": WithinBudget,
    "xml": Xml,
    "reward_model": RewardModel,
    "judge": LLMJudge,
    "preference": PairwiseJudge,
}

__all__ = [
    "REWARDS",
    "Brevity",
    "Choosy",
    "CodeTests",
    "CosineLength",
    "DependentReward",
    "EditSimilarity",
    "ExactNumber",
    "FunctionReward",
    "GymScore",
    "JsonSchema",
    "LLMJudge",
    "LengthBudget",
    "MathAnswer",
    "MeanOf",
    "MultipleChoice",
    "NumberMatch",
    "PairwiseJudge",
    "Pattern",
    "Repetition",
    "ResponseReward",
    "Reward",
    "RewardModel",
    "RubricReward",
    "SameLanguage",
    "ScoreContext",
    "Scorer",
    "SoftOverlong",
    "StringMatch",
    "Tags",
    "ToolCalls",
    "WeightedReward",
    "WithinBudget",
    "WrongRepetition",
    "Xml",
    "check_failures",
    "check_links",
    "is_rubric",
    "judgeable",
    "own_reward",
]
