import math
from dataclasses import replace

import pytest

from covey.advantages import GRPO
from covey.metrics.names import METRICS, describe
from covey.metrics.step import group_metrics
from covey.testing.samples import make_parts, make_scored


def test_every_number_of_a_hand_made_step():
    groups = GRPO()(
        [
            make_scored([1.0, 0.0, None], lengths=[2, 4, 6]),  # ok
            make_scored([1.0, 1.0], lengths=[1, 1]),  # all right
            make_scored([0.0, 0.0], lengths=[3, 3]),  # all wrong
            make_scored([None, 0.5], lengths=[5, 5]),  # too few
        ]
    )
    m = group_metrics(groups)
    assert m["reward/mean"] == pytest.approx((1 + 0 + 1 + 1 + 0 + 0 + 0.5) / 7)
    assert m["reward/part/made"] == m["reward/mean"]
    assert m["pass_rate"] == pytest.approx(3 / 7)
    assert m["reward/unjudged"] == pytest.approx(2 / 9)
    assert m["reward/failed"] == 0.0
    assert [m[f"group/{s}"] for s in ("ok", "all_right", "all_wrong", "zero_variance", "too_few")] == [
        0.25, 0.25, 0.25, 0.0, 0.25,
    ]  # fmt: skip
    assert m["group/reward_std"] == pytest.approx((math.sqrt(0.5) + 0 + 0) / 3)
    assert m["group/distinct"] == pytest.approx((1 / 3 + 1 / 2 + 1 / 2 + 1 / 2) / 4)
    value = 0.5 / (math.sqrt(0.5) + 1e-4)
    assert m["advantage/mean"] == pytest.approx(0.0, abs=1e-7)
    assert m["advantage/abs_mean"] == pytest.approx(2 * value / 7, abs=1e-6)
    assert m["advantage/std"] == pytest.approx(math.sqrt(2 * value**2 / 7), abs=1e-6)
    assert (m["length/right"], m["length/wrong"]) == (pytest.approx(4 / 3), pytest.approx((4 + 3 + 3 + 5) / 4))
    assert m["tokens/sampled"] == 30.0
    assert (m["length/mean"], m["length/max"], m["length/truncated"]) == (pytest.approx(30 / 9), 6.0, 0.0)


def test_a_step_that_nobody_could_judge_has_no_reward():
    m = group_metrics(GRPO()([make_scored([None, None])]))
    assert math.isnan(m["reward/mean"])
    assert math.isnan(m["pass_rate"])
    assert m["reward/unjudged"] == 1.0


def test_pairs_of_tokens_that_siblings_share():
    """Tokens 4 5 6 and 5 6 7 give 45 56 56 67; a group of single tokens has no pairs."""
    groups = GRPO()([make_scored([1.0, 0.0], lengths=[3, 3]), make_scored([1.0, 0.0], "q", lengths=[1, 1])])
    drawn = [m.tokens[m.sampled].tolist() for m in groups[0].scored.group.members]
    assert drawn == [[4, 5, 6], [5, 6, 7]]
    assert group_metrics(groups)["group/distinct_2"] == 0.75


def test_parts_that_did_not_judge_are_counted_by_kind():
    scored = make_parts({"a": [1.0, None, None], "b": [0.0, 1.0, 2.0]})
    states = [{"a": "scored", "b": "scored"}, {"a": "abstained", "b": "scored"}, {"a": "failed", "b": "scored"}]
    scores = tuple(replace(score, states=state) for score, state in zip(scored.scores, states, strict=True))
    m = group_metrics(GRPO()([replace(scored, scores=scores)]))
    assert (m["reward/abstained/a"], m["reward/failed/a"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (m["reward/abstained/b"], m["reward/failed/b"], m["reward/part/a"]) == (0.0, 0.0, 1.0)


def test_every_name_is_in_the_catalogue():
    for name in group_metrics(GRPO()([make_scored([1, 0])])):
        assert describe(name).meaning
    with pytest.raises(KeyError, match="catalogue"):
        describe("reward/men")


def test_the_catalogue_is_complete_in_itself():
    for name, entry in METRICS.items():
        assert entry.unit, name
        assert entry.meaning, name
