"""Rewards of length and repetition, most of them by right and wrong: exact values by hand."""

import asyncio
import math

import pytest

from covey.rewards import DependentReward, ScoreContext
from covey.rewards.brevity import Brevity
from covey.rewards.cosine_length import CosineLength
from covey.rewards.length_budget import LengthBudget
from covey.rewards.repetition_wrong import WrongRepetition
from covey.rewards.within_budget import WithinBudget
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group, Part

RIGHT, WRONG, UNKNOWN = Part(value=1.0, correct=True), Part(value=0.0, correct=False), Part(value=None)


def siblings(*lengths, replies=None, **columns):
    texts = replies or ["2"] * len(lengths)
    members = (
        make_trajectory("p", i, reply=text, reply_tokens=length)
        for i, (length, text) in enumerate(zip(lengths, texts, strict=True))
    )
    return Group(prompt=make_prompt(**columns), members=tuple(members))


def values_after(reward, group, *verdicts):
    assert isinstance(reward, DependentReward)
    parts = asyncio.run(reward.score_after(group, ScoreContext(), verdicts))
    assert all(part.correct is None and part.error is None and part.why for part in parts)
    return [part.value for part in parts]


def values(reward, group):
    assert not isinstance(reward, DependentReward)
    return [part.value for part in asyncio.run(reward.score_group(group, ScoreContext()))]


def test_cosine_length_goes_from_one_value_to_another():
    reward, group = CosineLength(after="math", limit=8), siblings(4, 2, 4, 7, 8, 9)
    found = values_after(reward, group, RIGHT, WRONG, WRONG, RIGHT, RIGHT, WRONG)
    quarter, late = math.sqrt(0.5), math.cos(math.pi * 7 / 8)
    expected = [0.75, -0.5 - 0.25 * (1 + quarter), -0.75, 0.5 + 0.25 * (1 + late), -1.0, -1.0]
    assert found == pytest.approx(expected, abs=1e-12)
    assert [reward.of_length(0, right) for right in (True, False)] == [1.0, -1.0]


def test_cosine_length_never_rises_again_beyond_the_limit():
    reward = CosineLength(after="math", limit=100, exceed=-10)
    assert [reward.of_length(tokens, True) for tokens in (100, 150, 200)] == [-10.0] * 3
    lengths = [reward.of_length(tokens, True) for tokens in range(100)]
    assert lengths == sorted(lengths, reverse=True)


def test_brevity_is_scaled_over_the_siblings():
    found = values_after(Brevity(after="math"), siblings(10, 20, 25, 30, 10), RIGHT, RIGHT, WRONG, RIGHT, WRONG)
    assert found == [0.5, 0.0, -0.25, -0.5, 0.0]


def test_brevity_is_0_where_all_are_of_one_length():
    assert values_after(Brevity(after="math"), siblings(5, 5), RIGHT, WRONG) == [0.0, 0.0]
    assert values_after(Brevity(after="math"), siblings(5), RIGHT) == [0.0]


def test_brevity_leaves_out_siblings_that_could_not_be_judged():
    found = values_after(Brevity(after="math"), siblings(10, 1000, 20), RIGHT, UNKNOWN, RIGHT)
    assert found == [0.5, None, -0.5]


@pytest.mark.parametrize(("kind", "expected"), [("exact", [-0.25, 0.0, -0.5]), ("over", [0.0, 0.0, -0.5])])
def test_length_budget_takes_off_what_is_away_from_it(kind, expected):
    reward = LengthBudget(budget=100, kind=kind, alpha=0.125)
    assert values(reward, siblings(6, 8, 12, budget=8)) == expected  # the prompt's own
    assert values(reward, siblings(98, 100, 104)) == expected
    assert all(math.copysign(1, value) == 1 for value in values(reward, siblings(100)))


def test_within_budget_counts_right_responses_alone():
    reward = WithinBudget(after="math", budget=10, alpha=0.125, delta=0.5)
    found = values_after(reward, siblings(10, 12, 8, 14, 20, 5, 1, 10), *[RIGHT] * 7, WRONG)
    assert found == [0.5, 0.25, 0.75, 0.0, 0.0, 1.0, 1.0, 0.0]
    assert values_after(reward, siblings(10, budget=12.0), RIGHT) == [0.75]


@pytest.mark.parametrize("value", [0, -5, 1.5, "100", True, float("inf"), float("nan")])
def test_a_budget_that_is_no_number_of_tokens_cannot_be_judged(value):
    group = siblings(4, budget=value)
    for reward in (LengthBudget(budget=3), WithinBudget(after="math", budget=3)):
        assert "whole number of tokens" in reward.unfit(group.prompt)
    assert values(LengthBudget(budget=3), group) == [None]
    assert values_after(WithinBudget(after="math", budget=3), group, RIGHT) == [None]


def test_without_any_budget_nothing_can_be_judged():
    assert values(LengthBudget(), siblings(4)) == [None]
    assert values_after(WithinBudget(after="math"), siblings(4), RIGHT) == [None]
    assert LengthBudget().unfit(make_prompt()) is WithinBudget(after="math").unfit(make_prompt()) is None


def test_wrong_repetition_counts_words_whatever_their_case():
    replies = ["a b A B\na b", "a b A B\na b", "a b c d", "a", ""]
    found = values_after(
        WrongRepetition(after="math", n=2, penalty=-0.5),
        siblings(*[4] * 5, replies=replies),
        WRONG,
        RIGHT,
        *[WRONG] * 3,
    )
    assert found == pytest.approx([-0.5 * (1 - 2 / 5), 0.0, 0.0, 0.0, 0.0], abs=1e-12)


def test_wrong_repetition_of_tokens():
    reward = WrongRepetition(after="math", n=1, unit="tokens")  # made-up tokens come again after seven
    assert values_after(reward, siblings(7, 14, 14), WRONG, WRONG, RIGHT) == [0.0, -0.5, 0.0]


REWARDS = [
    CosineLength(after="math", limit=8),
    Brevity(after="math"),
    WithinBudget(after="math", budget=8),
    WrongRepetition(after="math"),
]


@pytest.mark.parametrize("reward", REWARDS, ids=lambda r: r.name)
def test_an_unjudged_response_is_none_and_a_value_of_1_is_right(reward):
    group = siblings(4, 4, 6, replies=["a a a a a"] * 3)
    first, second, third = values_after(reward, group, Part(value=1.0), UNKNOWN, Part(value=0.9))
    assert second is None
    assert [first, third] == [
        values_after(reward, group, RIGHT, UNKNOWN, WRONG)[0],
        values_after(reward, group, RIGHT, UNKNOWN, WRONG)[2],
    ]
    assert first > third


@pytest.mark.parametrize(
    ("kind", "knobs"),
    [
        (CosineLength, {"after": "a", "limit": 0}), (CosineLength, {"after": "a", "limit": 9, "right": (1.0, float("nan"))}), (LengthBudget, {"budget": 0}), (LengthBudget, {"alpha": 0.0}),
        (LengthBudget, {"alpha": float("inf")}), (LengthBudget, {"kind": "under"}), (WithinBudget, {"after": "a", "delta": 1.5}), (WithinBudget, {"after": "a", "budget": -1}),
        (WrongRepetition, {"after": "a", "n": 0}), (WrongRepetition, {"after": "a", "penalty": 1.0}), (WrongRepetition, {"after": "a", "unit": "letters"}),
    ],
)  # fmt: skip
def test_settings_without_sense_are_refused(kind, knobs):
    with pytest.raises(ValueError, match=r"got"):
        kind(**knobs)
