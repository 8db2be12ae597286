import asyncio
import time

import pytest

from covey.config import make_config
from covey.errors import ConfigError, RewardError
from covey.loop.components import make_scorer
from covey.rewards import (
    ExactNumber,
    FunctionReward,
    ResponseReward,
    ScoreContext,
    Scorer,
    WeightedReward,
    check_failures,
    check_links,
)
from covey.rewards.judges.usage import Usage
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group, Part


class Fixed:
    def __init__(self, name, parts):
        self.name, self.parts = name, parts

    async def score_group(self, group, context):
        return self.parts


def part(value, correct=None, error=None):
    return Part(value=value, correct=correct, error=error)


def score(*rewards, members=2, threshold=1.0):
    group = Group(prompt=make_prompt(), members=tuple(make_trajectory("p", i) for i in range(members)))
    scorer = Scorer(rewards=tuple(WeightedReward(reward=r, weight=w) for r, w in rewards), pass_threshold=threshold)
    return asyncio.run(scorer([group], ScoreContext()))


def test_the_total_is_the_weighted_sum_and_parts_stay_visible():
    (scored,) = score((Fixed("a", [part(1.0), part(0.0)]), 1.0), (Fixed("b", [part(0.5), part(1.0)]), 0.2))
    assert [s.total for s in scored.scores] == pytest.approx([1.1, 0.2])
    assert [dict(s.parts) for s in scored.scores] == [{"a": 1.0, "b": 0.5}, {"a": 0.0, "b": 1.0}]


def test_correctness_is_the_verifiers_not_the_totals():
    (scored,) = score(
        (Fixed("right", [part(1.0, correct=True), part(0.0, correct=False)]), 0.1),
        (Fixed("bonus", [part(0.0), part(5.0)]), 1.0),
    )
    assert [s.correct for s in scored.scores] == [True, False]


def test_without_a_verifier_the_threshold_decides():
    (scored,) = score((Fixed("a", [part(0.7), part(0.4)]), 1.0), threshold=0.5)
    assert [s.correct for s in scored.scores] == [True, False]


def test_a_part_missing_for_one_sibling_takes_that_sibling_out():
    (scored,) = score((Fixed("a", [part(1.0), part(1.0)]), 1.0), (Fixed("b", [part(None), part(1.0)]), 1.0))
    assert [s.total for s in scored.scores] == [None, 2.0]
    assert [s.correct for s in scored.scores] == [None, True]


def test_a_part_that_applies_to_no_sibling_is_left_out():
    (scored,) = score((Fixed("a", [part(1.0), part(0.0)]), 1.0), (Fixed("b", [part(None), part(None)]), 1.0))
    assert [s.total for s in scored.scores] == [1.0, 0.0]


def test_nothing_that_can_judge_gives_no_total():
    (scored,) = score((Fixed("a", [part(None), part(None)]), 1.0))
    assert [s.total for s in scored.scores] == [None, None]


def test_a_failure_takes_the_response_out_even_if_all_siblings_failed():
    failed = [part(None, error="boom"), part(None, error="boom")]
    (scored,) = score((Fixed("a", [part(1.0), part(1.0)]), 1.0), (Fixed("b", failed), 1.0))
    assert [s.total for s in scored.scores] == [None, None]
    assert scored.scores[0].error == "b: boom"


def test_a_wrong_number_of_parts_is_an_error():
    with pytest.raises(RewardError, match="1 parts for 2"):
        score((Fixed("a", [part(1.0)]), 1.0))


def test_the_error_budget_names_the_commonest_reason():
    scored = score((Fixed("a", [part(1.0), part(None, error="boom")]), 1.0))
    check_failures(scored, 0.5)
    with pytest.raises(RewardError, match=r"1 of 2 .*a: boom"):
        check_failures(scored, 0.4)


def test_logged_metrics_are_averaged_and_drained():
    def reward(completions, log_metric):
        log_metric("x", 1.0)
        log_metric("x", 3.0)
        return [0.0] * len(completions)

    scorer = Scorer(rewards=(WeightedReward(reward=FunctionReward(reward)),))
    group = Group(prompt=make_prompt(), members=(make_trajectory("p", 0),))
    asyncio.run(scorer([group], ScoreContext()))
    drained = scorer.drain()
    assert drained.pop("seconds/reward/reward") > 0
    assert drained == {"reward/logged/x": 2.0}
    assert scorer.drain() == {}


class Raises:
    """Any reward, not only a function: a verifier that meets text it did not expect."""

    name = "raises"

    async def score_group(self, group, context):
        raise KeyError("level")


def test_what_any_reward_raises_is_data():
    (scored,) = score((Raises(), 1.0))
    assert [s.total for s in scored.scores] == [None, None]
    assert {s.error for s in scored.scores} == {"raises: KeyError: 'level'"}


def test_nan_is_missing_and_infinity_is_an_error():
    (scored,) = score((Fixed("a", [part(float("nan")), part(1.0)]), 1.0))
    assert [s.total for s in scored.scores] == [None, 1.0]
    assert scored.scores[0].parts == {"a": None}
    with pytest.raises(RewardError, match="must be finite"):
        score((Fixed("a", [part(float("inf")), part(1.0)]), 1.0))


def test_a_step_that_nobody_can_judge_stops_with_the_reason():
    group = Group(prompt=make_prompt(answer="6*12\n#### 72"), members=(make_trajectory("p", 0),))
    scorer = Scorer(rewards=(WeightedReward(reward=ExactNumber()),))
    with pytest.raises(RewardError, match=r"none of 1 responses could be judged; exact_number: .*is not a number"):
        check_failures(asyncio.run(scorer([group], ScoreContext())), 1.0)


def composed(*rewards):
    """Scores of two siblings; each reward is (name, parts, settings)."""
    items = tuple(WeightedReward(reward=Fixed(name, parts), **settings) for name, parts, settings in rewards)
    group = Group(prompt=make_prompt(), members=tuple(make_trajectory("p", i) for i in range(len(rewards[0][1]))))
    return asyncio.run(Scorer(rewards=items)([group], ScoreContext()))[0].scores


RIGHT_WRONG = ("answer", [part(1.0, correct=True), part(0.0, correct=False)], {})


def test_a_gated_part_counts_only_where_its_gate_is_right():
    scores = composed(RIGHT_WRONG, ("style", [part(0.5), part(0.9)], {"gate": "answer", "weight": 2.0}))
    assert [s.total for s in scores] == [2.0, 0.0]
    assert [dict(s.parts) for s in scores] == [{"answer": 1.0, "style": 0.5}, {"answer": 0.0, "style": 0.0}]
    assert scores[1].why["style"].startswith("0.9, but answer is not right")
    assert [s.correct for s in scores] == [True, False]


def test_the_answer_may_be_gated_by_the_form_and_stays_right_or_wrong():
    scores = composed(
        ("answer", [part(1.0, correct=True), part(1.0, correct=True)], {"gate": "form"}),
        ("form", [part(0.0), part(1.0)], {}),
    )
    assert [s.total for s in scores] == [0.0, 2.0]
    assert [s.correct for s in scores] == [True, True]


def test_a_penalty_behind_a_gate_is_not_paid_either():
    scores = composed(RIGHT_WRONG, ("length", [part(-1.0), part(-1.0)], {"gate": "answer"}))
    assert [s.total for s in scores] == [0.0, 0.0]


def test_gates_look_at_each_other_as_they_were_judged():
    parts = [part(1.0, correct=True), part(0.0, correct=False)]
    scores = composed(
        ("a", parts, {"gate": "b"}), ("b", [part(0.0, correct=False), part(1.0, correct=True)], {"gate": "a"})
    )
    assert [dict(s.parts) for s in scores] == [{"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.0}]


def test_behind_a_gate_that_nobody_could_judge_nothing_is_known():
    scores = composed(("answer", [part(None), part(1.0)], {}), ("style", [part(0.5), part(0.5)], {"gate": "answer"}))
    assert [s.total for s in scores] == [None, 1.5]


def test_a_cap_bounds_the_value_before_the_weight():
    scores = composed(("a", [part(3.0), part(-3.0)], {"cap": 1.0, "weight": 2.0}))
    assert [s.total for s in scores] == [2.0, -6.0]


def test_a_gate_that_is_no_other_part_is_an_error():
    for gate in ("b", "a"):
        with pytest.raises(ConfigError, match=f"gate '{gate}', which is no other part"):
            check_links([WeightedReward(reward=Fixed("a", []), gate=gate)])


def test_three_states_a_part():
    (scored,) = score(
        (Fixed("a", [part(1.0), part(None), part(None, error="boom")]), 1.0),
        (Fixed("b", [part(0.0), part(float("nan")), part(1.0)]), 1.0),
        members=3,
    )
    assert [dict(s.states) for s in scored.scores] == [
        {"a": "scored", "b": "scored"},
        {"a": "abstained", "b": "abstained"},
        {"a": "failed", "b": "scored"},
    ]


class Stuck:
    """It does not even hear that it was cancelled."""

    name = "stuck"

    async def score_group(self, group, context):
        while True:
            try:
                await asyncio.sleep(0.3)
            except asyncio.CancelledError:
                continue
            return [part(1.0)]


def test_a_reward_that_is_late_has_failed_and_nobody_waits_for_it():
    group = Group(prompt=make_prompt(), members=(make_trajectory("p", 0),))
    scorer = Scorer(rewards=(WeightedReward(reward=Stuck()),), deadline=0.05)

    async def timed():
        began = time.perf_counter()
        (scored,) = await scorer([group], ScoreContext())
        return scored, time.perf_counter() - began

    scored, seconds = asyncio.run(timed())
    assert seconds < 0.25
    assert scored.scores[0].error == "stuck: TimeoutError: no verdict within reward.deadline = 0.05 s"


class HangsOnce(ResponseReward):
    name = "hangs"
    deadline = 0.1

    def judge(self, prompt, reply):
        if reply == "hang":
            time.sleep(2)
        return part(1.0)


def test_a_response_reward_that_hangs_is_left_behind_and_the_next_group_is_judged():
    groups = [Group(prompt=make_prompt(uid), members=(make_trajectory(uid, 0, reply=uid),)) for uid in ("hang", "fine")]
    scorer = Scorer(rewards=(WeightedReward(reward=HangsOnce()),))
    began = time.perf_counter()
    stuck, fine = asyncio.run(scorer(groups, ScoreContext()))
    assert time.perf_counter() - began < 1.5
    assert stuck.scores[0].error == "hangs: TimeoutError: it took more than its deadline of 0.1 s"
    assert fine.scores[0].total == 1.0


class Opposite:
    """Counts what another part thinks wrong."""

    name, after = "opposite", "right"

    async def score_after(self, group, context, verdicts):
        return [part(None if v.correct is None else float(not v.correct)) for v in verdicts]


def test_a_dependent_part_is_told_the_verdicts_whatever_the_order():
    right = Fixed("right", [part(1.0, correct=True), part(0.0, correct=False), part(None)])
    for order in ([Opposite(), right], [right, Opposite()]):
        (scored,) = score(*[(reward, 1.0) for reward in order], members=3)
        assert [s.parts["opposite"] for s in scored.scores] == [0.0, 1.0, None]


def test_a_dependent_part_needs_a_part_that_judges_by_itself():
    with pytest.raises(ConfigError, match="'opposite' counts by the verdicts of 'right', which is no part"):
        check_links([WeightedReward(reward=Opposite()), WeightedReward(reward=Fixed("other", []))])


def test_what_a_judge_was_asked_is_counted_from_the_beginning():
    judge = Fixed("judge", [part(1.0)])
    judge.usage, judge.cost = Usage(calls=3, cache_hits=2, prompt_tokens=100, completion_tokens=20), 0.5
    scorer = Scorer(rewards=(WeightedReward(reward=judge),))
    counts = {"judge/calls/judge": 3.0, "judge/kept/judge": 2.0, "judge/tokens/judge": 120.0, "judge/cost/judge": 0.5}
    assert scorer.drain() == counts
    assert scorer.drain() == counts


def test_a_run_file_asks_for_the_mean_of_several_scores():
    scorer = make_scorer(
        make_config({"reward": {"parts": [{"name": "exact_number", "times": 3, "alias": "n"}]}}).reward
    )
    group = Group(prompt=make_prompt(answer="2"), members=(make_trajectory("p", 0, reply="<answer>2</answer>"),))
    (scored,) = asyncio.run(scorer([group], ScoreContext()))
    assert dict(scored.scores[0].parts) == {"n": 1.0}
    assert "judged 3 of 3 times" in scored.scores[0].why["n"]
    parts = ["exact_number", {"name": "brevity", "after": "exact_number", "times": 2}]
    with pytest.raises(ConfigError, match="'brevity' says the same each time"):
        make_scorer(make_config({"reward": {"parts": parts}}).reward)
