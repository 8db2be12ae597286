import asyncio
import signal
import time

import numpy as np
import pytest

from covey.errors import ConfigError, RewardError
from covey.rewards import FunctionReward, ScoreContext
from covey.rewards.function import load_function
from covey.rewards.score import judge
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


def sleeping(completions, **_):
    if "slow" in completions[0][0]["content"]:
        time.sleep(3.0)
    return [1.0] * len(completions)


def parts_of(reward, *replies):
    async def ask():
        groups = [Group(prompt=make_prompt(), members=(make_trajectory("p", 0, reply=reply),)) for reply in replies]
        return await asyncio.gather(*(judge(reward, group, ScoreContext()) for group in groups))

    return [parts[0] for parts in asyncio.run(ask())]


def test_a_call_past_its_deadline_is_a_failure_and_the_others_go_on():
    reward = FunctionReward(sleeping, deadline=0.3)
    began = time.monotonic()
    found = parts_of(reward, "quick", "slow", "quick", "slow", "quick")
    assert [part.value for part in found] == [1.0, None, 1.0, None, 1.0]
    assert "deadline of 0.3 s" in found[1].error
    assert time.monotonic() - began < 2.0


def test_waiting_for_ones_turn_is_not_counted():
    def brief(completions, **_):
        time.sleep(0.1)
        return [1.0]

    assert [part.value for part in parts_of(FunctionReward(brief, deadline=0.35), *["x"] * 6)] == [1.0] * 6


def test_the_event_loop_is_free_meanwhile():
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)

    async def both():
        ticking = asyncio.create_task(tick())
        group = Group(prompt=make_prompt(), members=(make_trajectory("p", 0, reply="slow"),))
        await judge(FunctionReward(sleeping, deadline=0.3), group, ScoreContext())
        ticking.cancel()

    asyncio.run(both())
    assert len(ticks) > 10


def test_calls_come_one_after_another():
    running, most = [], []

    def watched(completions, **_):
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()
        return [1.0]

    parts_of(FunctionReward(watched), *["x"] * 20)
    assert max(most) == 1


def test_a_function_that_needs_the_main_thread_gets_it():
    def alarmed(completions, **_):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        return [1.0]

    assert [part.value for part in parts_of(FunctionReward(alarmed), "x", "x")] == [1.0, 1.0]


def test_a_broken_connection_is_tried_again_and_other_errors_are_not(monkeypatch):
    calls = []

    def flaky(completions, **_):
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("reset")
        return [1.0]

    assert parts_of(FunctionReward(flaky, retries=2), "x")[0].value == 1.0
    calls.clear()
    assert "ConnectionError" in parts_of(FunctionReward(flaky, retries=1), "x")[0].error

    def wrong(completions, **_):
        calls.append(1)
        raise KeyError("x")

    calls.clear()
    assert parts_of(FunctionReward(wrong, retries=5), "x")[0].error
    assert len(calls) == 1


def test_an_asynchronous_function_has_a_deadline_too():
    async def slow(completions, **_):
        await asyncio.sleep(5)

    assert "deadline of 0.1 s" in parts_of(FunctionReward(slow, deadline=0.1), "x")[0].error
