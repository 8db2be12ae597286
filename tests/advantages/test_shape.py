from dataclasses import replace

import numpy as np
import pytest

from covey.advantages import GRPO, RLOO, GroupMean
from covey.advantages.base import rewards_of
from covey.advantages.shape import Shaping
from covey.advantages.tokens import AfterReasoning, AnswerSpan, FunctionChoice, TextChoice, tokens_of
from covey.batching.layout import pad
from covey.losses.kl import KLTerm
from covey.testing.samples import make_scored, values_of
from covey.types import Totals, Turn


def cut_short(scored, *which):
    """The same group with these members stopped by the token limit."""
    members = list(scored.group.members)
    for i in which:
        members[i] = replace(members[i], turns=(replace(members[i].turns[0], finish="length"),))
    return replace(scored, group=replace(scored.group, members=tuple(members)))


def test_scaling_comes_before_clipping_and_raw_numbers_stay():
    group = make_scored([4.0, -2.0, None, 1.0])
    (shaped,) = Shaping(scale=0.5, clip=(-0.5, 1.0))([group])
    np.testing.assert_array_equal(rewards_of(shaped), [1.0, -0.5, np.nan, 0.5])
    assert [score.total for score in shaped.scores] == [4.0, -2.0, None, 1.0]


@pytest.mark.parametrize("clip", [(1.0, 0.0)])
def test_senseless_clips_are_refused(clip):
    with pytest.raises(ValueError, match="expected"):
        Shaping(clip=clip)


def test_truncated_responses_are_kept_masked_or_dropped():
    group = cut_short(make_scored([1.0, 0.0, 0.0], lengths=[2, 4, 6]), 2)
    kept, masked, dropped = (GroupMean()(Shaping(truncated=choice)([group]))[0] for choice in ("keep", "mask", "drop"))
    assert values_of(kept) == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert values_of(masked) == pytest.approx([2 / 3, -1 / 3, 0.0])  # its reward is still in the baseline
    assert values_of(dropped) == pytest.approx([0.5, -0.5, 0.0])
    assert pad([kept], 99).totals == Totals(tokens=12, sequences=3, groups=1)
    assert pad([masked], 99).totals == pad([dropped], 99).totals == Totals(tokens=6, sequences=2, groups=1)


def test_all_truncated_leaves_nothing_and_no_nan():
    group = cut_short(make_scored([1.0, 0.0]), 0, 1)
    for choice in ("mask", "drop"):
        (credited,) = GRPO()(Shaping(truncated=choice)([group]))
        assert values_of(credited) == [0.0, 0.0]
        batch = pad([credited], 100)
        assert batch.micro == ()
        assert batch.totals == Totals(tokens=0, sequences=0, groups=0)


def test_a_response_without_a_trained_token_does_not_move_its_siblings():
    # (100, 1, 0): without the first, mean 0.5 and sample deviation 0.707107
    group = make_scored([100.0, 1.0, 0.0])
    choice = FunctionChoice(lambda reply: [(0, 1)])
    members = list(group.group.members)
    members[0] = replace(members[0], turns=(replace(members[0].turns[0], reply="", ends=np.zeros(4, np.int64)),))
    group = replace(group, group=replace(group.group, members=tuple(members)))

    class FirstCharacter(TextChoice):
        def spans(self, reply):
            return [(0, 1)] if reply else []

    (credited,) = GRPO()(Shaping(tokens=FirstCharacter())([group]))
    values = [stream[-1] for stream in credited.advantages]
    assert values == pytest.approx([0.0, 0.707007, -0.707007], abs=1e-6)
    assert [int(mask.sum()) for mask in credited.scored.shaped.trained] == [0, 4, 4]
    assert choice.spans("x") == [(0, 1)]


TURN = Turn(start=3, stop=9, reply="ab<c>d", finish="stop", ends=np.array([1, 2, 2, 5, 6, 6]))


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 1), [1, 0, 0, 0, 0, 0]),
        ((1, 5), [0, 1, 1, 1, 0, 0]),  # the third token is the first part of a character
        ((2, 5), [0, 0, 1, 1, 0, 0]),
        ((0, 2), [1, 1, 0, 0, 0, 0]),
        ((6, 6), [0, 0, 0, 0, 0, 1]),
        ((7, 9), [0, 0, 0, 0, 0, 0]),
        ((3, 4), [0, 0, 0, 1, 0, 0]),
        ((5, 6), [0, 0, 0, 0, 1, 1]),  # to the end: the end token belongs to it
        ((0, 6), [1, 1, 1, 1, 1, 1]),
        ((2, 2), [0, 0, 0, 0, 0, 0]),
    ],
)
def test_tokens_of_a_span_of_text(span, expected):
    assert tokens_of(TURN, span).tolist() == [bool(x) for x in expected]


@pytest.mark.parametrize(
    ("reply", "reasoning", "answer"),
    [
        ("<think>x</think>y", [(16, 17)], []),
        ("a</think>b</think>c", [(18, 19)], []),
        ("<think>never closed", [], []),
        ("w <answer>1</answer> <answer>2</answer>.", [], [(21, 39)]),
        ("w <answer>2", [], [(2, 11)]),
        ("", [], []),
    ],
)
def test_spans_of_reasoning_and_answer(reply, reasoning, answer):
    assert list(AfterReasoning().spans(reply)) == reasoning
    assert list(AnswerSpan().spans(reply)) == answer


def test_a_choice_by_text_needs_the_places_of_tokens():
    with pytest.raises(ValueError, match="text_ends=True"):
        tokens_of(replace(TURN, ends=None), (0, 1))


def test_kl_in_the_reward_is_taken_off_before_credit():
    group = make_scored([1.0, 1.0], lengths=[2, 4])
    refs = [np.where(member.sampled, np.float32(-0.75), np.float32(np.nan)) for member in group.group.members]
    penalty = KLTerm(estimator="k1", where="reward").of_array
    (shaped,) = Shaping()([group], [refs], 0.1, penalty)  # k1 = -0.5 + 0.75 a token
    np.testing.assert_allclose(rewards_of(shaped), [1 - 0.1 * 0.25 * 2, 1 - 0.1 * 0.25 * 4], atol=1e-9)
    (credited,) = RLOO()([shaped])
    assert values_of(credited) == pytest.approx([0.05, -0.05])
    (micro,) = pad([credited], 100).micro
    assert micro.ref_logp[micro.trained].tolist() == [-0.75] * 6  # nobody computes them again


def test_a_masked_response_keeps_its_penalty_in_the_baseline():
    group = cut_short(make_scored([1.0, 1.0], lengths=[2, 4]), 1)
    refs = [np.where(member.sampled, np.float32(-0.75), np.float32(np.nan)) for member in group.group.members]
    penalty = KLTerm(estimator="k1", where="reward").of_array
    kept, masked = (Shaping(truncated=choice)([group], [refs], 0.1, penalty)[0] for choice in ("keep", "mask"))
    np.testing.assert_array_equal(rewards_of(masked), rewards_of(kept))
