import numpy as np
import pytest

from covey.advantages import GRPO, GroupMean
from covey.testing.samples import make_scored, values_of


def test_sample_and_population_forms_differ_by_the_known_factor():
    rewards = np.array([1.0, 0, 0, 0, 1, 0, 0, 0])
    ratio = GRPO(eps=0.0, std_ddof=0).of_rewards(rewards) / GRPO(eps=0.0).of_rewards(rewards)
    np.testing.assert_allclose(ratio, np.sqrt(8 / 7), atol=1e-12)


def test_tolerance_decides_what_counts_as_equal():
    group = make_scored([1.0, 1.0, 1.0, 1.000001])
    assert values_of(GRPO(tolerance=1e-5)([group])[0]) == [0.0] * 4
    assert values_of(GRPO()([group])[0])[3] == pytest.approx(0.007462686566, abs=1e-6)


def test_equal_rewards_of_unknown_correctness_are_zero_variance():
    credited = GroupMean()([make_scored([0.5, 0.5, 1.0 - 0.5])])[0]
    assert credited.signal == "all_wrong"  # 0.5 is below the pass mark of these samples


@pytest.mark.parametrize("knobs", [{"std_ddof": 2}, {"eps": -1.0}, {"tolerance": -1e-9}])
def test_senseless_knobs_are_refused(knobs):
    with pytest.raises(ValueError, match="got"):
        GRPO(**knobs)
