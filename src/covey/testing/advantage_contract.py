"""What every within-group advantage estimator holds. Give the fixture ``advantage``."""

from __future__ import annotations

import numpy as np
import pytest

from covey.advantages.base import Advantage
from covey.testing.samples import make_scored, values_of


def test_one_credited_group_each_in_order(advantage: Advantage) -> None:
    groups = [make_scored([1, 0, 0], uid=uid) for uid in ("a", "b", "c")]
    credited = advantage(groups)
    assert [c.scored.group.prompt.uid for c in credited] == ["a", "b", "c"]
    assert all(c.scored is g for c, g in zip(credited, groups, strict=True))


def test_streams_have_the_trajectory_length_and_are_float32(advantage: Advantage) -> None:
    (credited,) = advantage([make_scored([1, 0, 1], lengths=[2, 5, 9])])
    assert [stream.shape[0] for stream in credited.advantages] == [5, 8, 12]
    assert all(stream.dtype == np.float32 for stream in credited.advantages)


def test_equal_rewards_give_exactly_zero(advantage: Advantage) -> None:
    for reward, signal in ((1.0, "all_right"), (0.0, "all_wrong")):
        (credited,) = advantage([make_scored([reward] * 4)])
        assert values_of(credited) == [0.0] * 4
        assert credited.signal == signal


def test_rounding_noise_is_no_signal(advantage: Advantage) -> None:
    (credited,) = advantage([make_scored([0.1 + 0.2, 0.3, 0.3, 0.3])])
    assert values_of(credited) == [0.0] * 4


def test_missing_rewards_leave_the_statistics(advantage: Advantage) -> None:
    (with_gap,) = advantage([make_scored([1.0, None, 0.0, float("nan"), 0.0])])
    (without,) = advantage([make_scored([1.0, 0.0, 0.0])])
    values = values_of(with_gap)
    assert values[1] == values[3] == 0.0
    assert [values[0], values[2], values[4]] == values_of(without)


def test_fewer_than_two_judged_responses_teach_nothing(advantage: Advantage) -> None:
    for rewards in ([0.7], [None, 0.7, None], [None, None]):
        (credited,) = advantage([make_scored(rewards)])
        assert values_of(credited) == [0.0] * len(rewards)
        assert credited.signal == "too_few"


def test_infinite_rewards_are_refused(advantage: Advantage) -> None:
    with pytest.raises(ValueError, match="finite"):
        advantage([make_scored([1.0, float("inf"), 0.0])])


def test_order_of_siblings_does_not_matter(advantage: Advantage) -> None:
    rewards = [1.0, 0.0, 0.5, 0.25]
    (forward,), (backward,) = advantage([make_scored(rewards)]), advantage([make_scored(rewards[::-1])])
    assert values_of(forward) == pytest.approx(values_of(backward)[::-1], abs=1e-6)


def test_two_groups_of_the_same_prompt_stay_apart(advantage: Advantage) -> None:
    alone = [values_of(advantage([make_scored(rewards)])[0]) for rewards in ([1, 0, 0], [0, 1, 1])]
    together = [values_of(c) for c in advantage([make_scored([1, 0, 0]), make_scored([0, 1, 1])])]
    assert together == alone


def test_better_than_siblings_is_positive(advantage: Advantage) -> None:
    values = values_of(advantage([make_scored([2.0, 1.0, 0.0])])[0])
    assert values[0] > 0 > values[2]
    assert abs(sum(values)) < 1e-5
