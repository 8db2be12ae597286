"""What an estimator holds whose baseline is the group's own. Give the fixture ``advantage``."""

from __future__ import annotations

import pytest

from covey.advantages.base import Advantage
from covey.testing.samples import make_scored, values_of


def test_equal_rewards_give_exactly_zero(advantage: Advantage) -> None:
    for reward, signal in ((1.0, "all_right"), (0.0, "all_wrong")):
        (credited,) = advantage([make_scored([reward] * 4)])
        assert values_of(credited) == [0.0] * 4
        assert credited.signal == signal


@pytest.mark.parametrize("rewards", [[0.7] * 7, [0.3] * 8, [0.11] * 12, [0.6] * 3, [0.1 + 0.2, 0.3, 0.3, 0.3]])
def test_rounding_noise_is_no_signal(advantage: Advantage, rewards: list[float]) -> None:
    """The mean of equal numbers need not equal them in floating point."""
    (credited,) = advantage([make_scored(rewards)])
    assert values_of(credited) == [0.0] * len(rewards)
    assert credited.signal != "ok"


def test_fewer_than_two_judged_responses_teach_nothing(advantage: Advantage) -> None:
    for rewards in ([0.7], [None, 0.7, None], [None, None]):
        (credited,) = advantage([make_scored(rewards)])
        assert values_of(credited) == [0.0] * len(rewards)
        assert credited.signal == "too_few"


def test_better_than_siblings_is_positive(advantage: Advantage) -> None:
    (credited,) = advantage([make_scored([1.0, 0.0, 0.0, 0.0])])
    values = values_of(credited)
    assert values[0] > 0 >= max(values[1:])
    assert credited.signal == "ok"
