import asyncio

import numpy as np
import pytest

from covey.errors import ConfigError, RewardError
from covey.rewards import FunctionReward, ScoreContext
from covey.rewards.function import load_function
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group


def group_of(n=3, plain=False, **columns):
    prompt = make_prompt(answer="2", **columns)
    if plain:
        prompt = type(prompt)(uid="p", messages=prompt.messages, answer="2", plain=True)
    return Group(prompt=prompt, members=tuple(make_trajectory("p", i, reply=f"r{i}") for i in range(n)))


def call(function, group=None, **context):
    reward = FunctionReward(function)
    return reward, asyncio.run(reward.score_group(group or group_of(), ScoreContext(**context)))


def test_it_is_called_with_trls_arguments():
    seen = {}

    def reward(prompts, completions, completion_ids, level, answer, trainer_state, **kwargs):
        seen.update(locals())
        return [0.0, 0.5, 1.0]

    _, parts = call(reward, group_of(level="hard"), step=3, steps=10)
    assert [part.value for part in parts] == [0.0, 0.5, 1.0]
    assert seen["prompts"] == [[{"role": "user", "content": "1+1=?"}]] * 3
    assert seen["completions"] == [[{"role": "assistant", "content": f"r{i}"}] for i in range(3)]
    assert seen["completion_ids"] == [make_trajectory("p", i).tokens[3:].tolist() for i in range(3)]
    assert seen["level"] == ["hard"] * 3
    assert seen["answer"] == ["2"] * 3
    assert (seen["trainer_state"].global_step, seen["trainer_state"].max_steps) == (3, 10)
    assert {"log_extra", "log_metric"} <= set(seen["kwargs"])


def test_plain_prompts_come_as_strings():
    def reward(prompts, completions):
        assert prompts == ["1+1=?"] * 3
        return [float(c == "r1") for c in completions]

    assert [part.value for part in call(reward, group_of(plain=True))[1]] == [0.0, 1.0, 0.0]


def test_async_functions_arrays_and_abstentions():
    async def reward(completions):
        await asyncio.sleep(0)
        return np.array([1, float("nan"), 0])

    _, parts = call(reward)
    assert [part.value for part in parts] == [1.0, None, 0.0]
    assert [part.value for part in call(lambda completions: [None, True, 2])[1]] == [None, 1.0, 2.0]
    assert all(part.error is None for part in parts)


def test_logged_values_are_kept_for_the_step_but_not_in_evaluation():
    def reward(completions, log_metric, log_extra):
        log_metric("seen", len(completions))
        log_extra("note", ["a", "b", "c"])
        return [0.0] * len(completions)

    made, parts = call(reward)
    assert made.logged == [("seen", 3.0)]
    assert [part.why for part in parts] == ["note=a", "note=b", "note=c"]
    assert call(reward, evaluating=True)[0].logged == []


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([1.0], "1 values for 3"), ([1.0] * 4, "4 values for 3"), (1.0, "float, expected a list"),
        ("abc", "str, expected"), ({"a": 1, "b": 2, "c": 3}, "dict, expected"), (None, "NoneType"), ([1, "x", 2], "'x', expected a number"),
        ([1, float("inf"), 2], "must be finite"),
    ],
)  # fmt: skip
def test_a_broken_contract_is_an_error(result, message):
    with pytest.raises(RewardError, match=message):
        call(lambda completions: result)


def test_loading_a_function_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_rewards_here.py").write_text("def good(completions):\n    return [1.0] * len(completions)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nonexistent"])
    assert load_function("my_rewards_here:good")([1, 2]) == [1.0, 1.0]
    for path, message in (
        ("my_rewards_here:bad", "no attribute 'bad'"),
        ("no_such_module:f", "No module named"),
        ("my_rewards_here:__name__", "expected a function"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_function(path)
