import asyncio
import json
from collections import Counter

import pytest

from covey.errors import ConfigError
from covey.rewards import ScoreContext
from covey.rewards.comparisons import PairwiseJudge, pairs_of
from covey.testing.samples import make_prompt, make_trajectory
from covey.testing.scripted_endpoint import Reply, ScriptedEndpoint
from covey.types import Group

RUBRIC = "Which is better?\n{prompt}\n{first}\n{second}"


def quoted(body, name):
    text = body["messages"][1]["content"].partition(f"<<<{name} ")[2]
    return text.partition(">>>\n")[2].partition("\n<<<end")[0]


def says(winner):
    return Reply(text=json.dumps({"reason": "so", "winner": winner}))


def longer(body, number):
    first, second = len(quoted(body, "first")), len(quoted(body, "second"))
    return says("first" if first > second else "second" if second > first else "tie")


def judged(script, *replies, context=None, **knobs):
    members = tuple(make_trajectory("p", i, reply=reply) for i, reply in enumerate(replies))
    with ScriptedEndpoint(script) as endpoint:
        reward = PairwiseJudge(
            **{"url": endpoint.url, "model": "m", "rubric": RUBRIC, "pause": 0.01, "retries": 0, **knobs}
        )
        group = Group(prompt=make_prompt(), members=members)
        return asyncio.run(reward.score_group(group, context or ScoreContext())), endpoint


def test_the_value_is_the_share_of_wins_and_each_pair_is_asked_in_both_orders():
    parts, endpoint = judged(longer, "a", "bbb", "cc", "dd")
    assert [part.value for part in parts] == pytest.approx([0.0, 1.0, 0.5, 0.5])
    asked = Counter((quoted(body, "first"), quoted(body, "second")) for body in endpoint.asked)
    texts = ["a", "bbb", "cc", "dd"]
    assert asked == Counter((one, other) for one in texts for other in texts if one != other)
    assert parts[1].why == "3 of 3 comparisons"
    assert "data, to the last character" in endpoint.asked[0]["messages"][0]["content"]


def test_a_judge_that_likes_what_it_reads_first_says_nothing():
    parts, _ = judged(lambda body, number: says("first"), "a", "b", "c")
    assert [part.value for part in parts] == [0.5] * 3


def test_a_tie_in_one_order_is_half_a_verdict():
    def script(body, number):
        return says("first" if quoted(body, "first") == "a" else "tie")

    parts, _ = judged(script, "a", "b")
    assert [part.value for part in parts] == [0.75, 0.25]


def test_replies_that_are_the_same_tie_unasked():
    parts, endpoint = judged(longer, "a", "a", "bb")
    assert [part.value for part in parts] == [0.25, 0.25, 1.0]
    assert len(endpoint.asked) == 2
    parts, endpoint = judged(longer, "a", "a")
    assert ([part.value for part in parts], endpoint.asked) == ([0.5, 0.5], [])


def test_one_alone_cannot_be_judged():
    (part,), endpoint = judged(longer, "a")
    assert (part.value, part.why, part.error) == (None, "no sibling to compare with", None)
    assert endpoint.asked == []


def test_a_pair_without_a_verdict_in_one_order_is_left_out():
    def script(body, number):
        return Reply(status=400, body="no") if quoted(body, "first") == "bad" else longer(body, number)

    parts, _ = judged(script, "bad", "a", "bb")
    assert [part.value for part in parts] == [None, 0.0, 1.0]
    assert parts[0].error == "HTTP 400: no"
    assert parts[1].why == "0 of 1 comparisons, 1 more without a verdict"


def test_a_prompt_without_what_the_rubric_asks_for_cannot_be_judged():
    parts, endpoint = judged(longer, "a", "b", rubric=RUBRIC + "{level}")
    assert [(part.value, part.error) for part in parts] == [(None, None)] * 2
    assert endpoint.asked == []


def test_opponents_bound_the_cost_and_follow_the_prompt_and_the_step():
    replies = [str(n) * (n + 1) for n in range(8)]

    def asked(step):
        parts, endpoint = judged(longer, *replies, pairs=2, context=ScoreContext(step=step))
        assert all(part.why.endswith("of 2 comparisons") for part in parts)
        return {(quoted(body, "first"), quoted(body, "second")) for body in endpoint.asked}

    assert len(asked(0)) == 16
    assert asked(0) == asked(0)
    assert asked(0) != asked(1)


@pytest.mark.parametrize("size", range(2, 10))
@pytest.mark.parametrize("pairs", range(1, 10))
def test_everybody_meets_so_many_others(size, pairs):
    drawn = pairs_of(size, pairs, "seed")
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= i < j < size for i, j in drawn)
    met = Counter(who for pair in drawn for who in pair)
    expected = [min(pairs, size - 1)] * size
    if pairs < size - 1 and pairs % 2 and size % 2:
        expected[-1] += 1
    assert sorted(met.values()) == expected


@pytest.mark.parametrize(
    ("knobs", "message"),
    [({"pairs": 0}, "pairs must be"), ({"pairs": True}, "pairs must be"), ({"pairs": "some"}, "pairs must be"), ({"rubric": "{first} {reply}"}, "hold {second}")],
)  # fmt: skip
def test_wrong_settings_are_refused(knobs, message):
    with pytest.raises(ConfigError, match=message):
        PairwiseJudge(**{"url": "http://localhost", "model": "m", "rubric": RUBRIC, **knobs})
