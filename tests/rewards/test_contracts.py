import pytest

from covey.rewards import ExactNumber, FunctionReward, MathAnswer, Repetition, SoftOverlong, Tags
from covey.testing.reward_contract import *  # noqa: F403
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group


def length(completions, **_):
    return [len(c[0]["content"]) / 1000 for c in completions]


@pytest.fixture(
    params=[
        ExactNumber(),
        ExactNumber(tag=""),
        MathAnswer(),
        Tags(),
        SoftOverlong(limit=4, margin=2),
        Repetition(),
        FunctionReward(length),
    ],
    ids=lambda r: r.name,
)
def reward(request):
    return request.param


@pytest.fixture
def group():
    replies = ["<answer>2</answer>", "2", "so <answer> 3 </answer>", "<answer>2</answer><answer>4</answer>"]
    members = tuple(make_trajectory("p", i, reply=reply) for i, reply in enumerate(replies))
    return Group(prompt=make_prompt(answer="2"), members=members)
