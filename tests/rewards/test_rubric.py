import asyncio
import time
from types import SimpleNamespace

import pytest

from covey.errors import RewardError
from covey.rewards import FunctionReward, RubricReward, ScoreContext, is_rubric, own_reward
from covey.rewards.score import judge
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

MEMBERS = 3


def group_of(plain=False, **columns):
    prompt = make_prompt(answer="r1", **columns)
    if plain:
        prompt = type(prompt)(uid="p", messages=prompt.messages, answer="r1", plain=True)
    return Group(prompt=prompt, members=tuple(make_trajectory("p", i, reply=f"r{i}") for i in range(MEMBERS)))


def right(completion, answer):
    return float(completion[-1]["content"] == answer)


async def short(completion, state, **kwargs):
    await asyncio.sleep(0)
    state["seen"] = True
    assert kwargs["level"] == "hard"
    return 0.5


def after(state, parser):
    return 1.0 if state["seen"] and parser == "the parser" else 0.0


def ranks(completions, answers) -> list[float]:
    assert answers == ["r1"] * MEMBERS
    return [float(i) for i in range(len(completions))]


def values(reward, group=None, **context):
    return [
        part.value for part in asyncio.run(reward.score_group(group or group_of(level="hard"), ScoreContext(**context)))
    ]


def rubric(*functions, weights=None, **objects):
    return SimpleNamespace(funcs=list(functions), weights=weights or [1.0] * len(functions), class_objects=objects)


def test_it_is_the_weighted_sum_of_functions_of_one_response_and_of_all():
    made = RubricReward.of(rubric(right, short, after, ranks, weights=[1, 0.2, 0, -0.5], parser="the parser"))
    parts = asyncio.run(made.score_group(group_of(level="hard"), ScoreContext()))
    assert [part.value for part in parts] == pytest.approx([0.1, 0.6, -0.9])
    assert parts[1].why == "right 1, short 0.5, after 1, ranks 1"
    assert made.logged[:3] == [("right", 0.0), ("right", 1.0), ("right", 0.0)]


def test_evaluation_logs_nothing():
    made = RubricReward([right], [1.0])
    values(made, evaluating=True)
    assert made.logged == []


def test_groups_of_rubrics_are_taken_whole():
    both = SimpleNamespace(rubrics=[rubric(right), rubric(ranks, weights=[2.0])])
    assert is_rubric(both)
    assert values(own_reward(both, {})) == [0.0, 3.0, 4.0]


def test_plain_prompts_come_as_strings():
    def same(prompt, completion, answer):
        assert prompt == "1+1=?"
        return completion == answer

    assert values(own_reward(same, {}), group_of(plain=True)) == [0.0, 1.0, 0.0]


def test_the_signature_tells_whose_function_it_is():
    assert isinstance(own_reward(right, {}), RubricReward)
    assert own_reward(right, {}).name == "right"
    assert isinstance(own_reward(lambda completions: [0.0] * MEMBERS, {"name": "x"}), FunctionReward)


def test_a_missing_number_is_not_nought():
    def sometimes(completion):
        return None if completion[-1]["content"] == "r0" else 1.0

    parts = asyncio.run(RubricReward([right, sometimes], [1.0, 1.0]).score_group(group_of(), ScoreContext()))
    assert [part.value for part in parts] == [None, 2.0, 1.0]
    assert parts[0].why == "right 0, sometimes None"


def test_what_a_function_raises_is_data_and_no_reward_of_nought():
    def broken(completion):
        raise KeyError("tests")

    parts = asyncio.run(judge(RubricReward([right, broken], [1.0, 1.0]), group_of(), ScoreContext()))
    assert [(part.value, part.state) for part in parts] == [(None, "failed")] * MEMBERS
    assert "KeyError" in parts[0].error


def test_a_function_past_its_deadline_fails():
    def slow(completion):
        time.sleep(5)

    began = time.perf_counter()
    parts = asyncio.run(judge(RubricReward([slow], [1.0], deadline=0.1), group_of(), ScoreContext()))
    assert time.perf_counter() - began < 2
    assert {part.error for part in parts} == {"TimeoutError: it took more than its deadline of 0.1 s"}


@pytest.mark.parametrize("wrong", [float("inf"), "high", {"a": 1.0}])
def test_what_is_no_finite_number_breaks_the_contract(wrong):
    def odd(completion):
        return wrong

    with pytest.raises(RewardError, match="rubric: odd"):
        values(RubricReward([odd], [1.0]))


def test_a_group_function_must_judge_all():
    def few(completions):
        return [1.0]

    with pytest.raises(RewardError, match="1 values for 3"):
        values(RubricReward([few], [1.0]))


def test_functions_and_weights_go_together():
    with pytest.raises(ValueError, match="2 functions, 1 weights"):
        RubricReward([right, after], [1.0])
