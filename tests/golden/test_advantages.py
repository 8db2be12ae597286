"""Worked examples of the formulas, to 1e-6 in float64. Each case shows its arithmetic."""

import numpy as np
import pytest

from covey.advantages import GRPO, GroupMean
from covey.advantages.base import is_degenerate, usable_rewards
from covey.testing.samples import make_scored, values_of

# rewards, population std, sample std, population-normalised first value, sample-normalised values (eps = 0)
NORMALISED = [
    # mean 6.75, deviations 3.25 -6.75 3.25 0.25, squares sum to 66.75; 66.75/4 and 66.75/3
    ([10, 0, 10, 7], 4.08503365959, 4.71699056603, [0.688998622004, -1.43099713801, 0.688998622004, 0.0529998940003]),
    # mean 5.5, deviations 4.5 3.5 -3.5 -4.5, squares sum to 65
    ([10, 9, 2, 1], 4.03112887415, 4.65474668126, [0.966755079953, 0.751920617741, -0.751920617741, -0.966755079953]),
    # mean 5.5, deviations all 0.5: population std 0.5, sample std 0.5 sqrt(4/3)
    ([6, 6, 5, 5], 0.5, 0.57735026919, [0.866025403784, 0.866025403784, -0.866025403784, -0.866025403784]),
    # 3 of 8 right: p = 3/8, population std sqrt(p (1-p)), so a right answer gets sqrt((1-p)/p) sqrt(7/8)
    ([1, 1, 1, 0, 0, 0, 0, 0], 0.484122918276, 0.517549169507, [1.20761472885] * 3 + [-0.724568837309] * 5),
]


@pytest.mark.parametrize(("rewards", "population", "sample", "expected"), NORMALISED)
def test_group_normalised(rewards, population, sample, expected):
    values = np.array(rewards, dtype=np.float64)
    assert values.std() == pytest.approx(population, abs=1e-9)
    assert values.std(ddof=1) == pytest.approx(sample, abs=1e-9)
    np.testing.assert_allclose(GRPO(eps=0.0).of_rewards(values), expected, atol=1e-9)
    scaled = np.array(expected) * sample / population
    np.testing.assert_allclose(GRPO(eps=0.0, std_ddof=0).of_rewards(values), scaled, atol=1e-9)


def test_eight_exam_scores_against_their_mean():
    # mean 83.75: 90 is 6.25 above, 75 is 8.75 below
    credited = GroupMean()([make_scored([82.0, 78.0, 90.0, 75.0, 88.0, 80.0, 85.0, 92.0])])[0]
    assert values_of(credited) == [-1.75, -5.75, 6.25, -8.75, 4.25, -3.75, 1.25, 8.25]


@pytest.mark.parametrize(("eps", "expected"), [(1e-8, 1.47058823518), (1e-6, 0.499999999936), (1e-4, 0.007462686566)])
def test_eps_shrinks_the_advantage_of_a_tiny_spread(eps, expected):
    # sample std of (0, 0, 0, 1e-6) is 5e-7; the last is 0.75e-6 above the mean: 0.75e-6 / (5e-7 + eps)
    values = GRPO(eps=eps).of_rewards(np.array([1.0, 1.0, 1.0, 1.000001]))
    assert values[3] == pytest.approx(expected, rel=1e-6)


def test_a_missing_reward_is_not_zero():
    # of (1, 0, 0): mean 1/3, sample std 0.577350; 0.666667 / 0.577450 and -0.333333 / 0.577450
    expected = [1.15450057301, 0.0, -0.577250286507, -0.577250286507]
    assert values_of(GRPO()([make_scored([1, None, 0, 0])])[0]) == pytest.approx(expected, abs=1e-6)


def test_a_lone_response_gets_nothing():
    assert values_of(GRPO()([make_scored([0.7])])[0]) == [0.0]


def test_degenerate_is_judged_in_float64():
    assert is_degenerate(usable_rewards([0.1 + 0.2, 0.3]), 1e-8)
    assert not is_degenerate(usable_rewards([0.3, 0.30001]), 1e-8)
    assert is_degenerate(usable_rewards([None, 0.3]), 1e-8)
