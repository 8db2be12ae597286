"""The contract suite over rewards of form, text and length."""

import pytest

from covey.loop.components import make_component
from covey.rewards.brevity import Brevity
from covey.rewards.cosine_length import CosineLength
from covey.rewards.edit_similarity import EditSimilarity
from covey.rewards.json_schema import JsonSchema
from covey.rewards.language import SameLanguage
from covey.rewards.length_budget import LengthBudget
from covey.rewards.multiple_choice import MultipleChoice
from covey.rewards.number_match import NumberMatch
from covey.rewards.pattern import Pattern
from covey.rewards.repetition_wrong import WrongRepetition
from covey.rewards.string_match import StringMatch
from covey.rewards.tool_calls import ToolCalls
from covey.rewards.within_budget import WithinBudget
from covey.rewards.xml import Xml
from covey.testing.reward_contract import *  # noqa: F403
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

CASES = [  # settings as they come from a run file
    (Pattern, {"pattern": "<answer>.*</answer>", "deadline": 10.0}),
    (JsonSchema, {"schema": {"type": "integer"}, "places": ["tag:answer", "whole"], "deadline": 10.0}),
    (Xml, {"elements": ["answer"], "outside": "anything"}),
    (ToolCalls, {"at_least": 1, "deadline": 10.0}),
    (StringMatch, {"places": ["tag:answer", "whole"]}),
    (NumberMatch, {"rel_tol": 0.5}),
    (MultipleChoice, {}),
    (EditSimilarity, {"unit": "words"}),
    (SameLanguage, {"scripts": ["latin"]}),
    (SameLanguage, {"scripts": "prompt"}),
    (LengthBudget, {"budget": 3}),
    (CosineLength, {"after": "exact_number", "limit": 8, "right": [2, 1]}),
    (Brevity, {"after": "exact_number"}),
    (WithinBudget, {"after": "exact_number", "budget": 3}),
    (WrongRepetition, {"after": "exact_number"}),
]


@pytest.fixture(params=CASES, ids=lambda case: case[0].__name__)
def reward(request):
    kind, knobs = request.param
    return make_component("reward", {"made": kind}, "made", knobs)


@pytest.fixture
def group():
    replies = ["<answer>2</answer>", "2", "so <answer> 3 </answer>", "<answer>2</answer><answer>4</answer>"]
    members = tuple(make_trajectory("p", i, reply=reply, reply_tokens=i + 2) for i, reply in enumerate(replies))
    return Group(prompt=make_prompt(answer="2", text="What is 1+1?", tools=[{"name": "now"}]), members=members)
