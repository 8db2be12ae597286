import itertools

import numpy as np
import pytest

from covey.metrics.estimate import mean_over_problems, pass_at_k, wilson


@pytest.mark.parametrize("n", range(1, 7))
def test_pass_at_k_equals_the_share_of_subsets_with_a_right_answer(n):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        outcomes = [1] * c + [0] * (n - c)
        subsets = list(itertools.combinations(range(n), k))
        share = sum(any(outcomes[i] for i in subset) for subset in subsets) / len(subsets)
        assert pass_at_k(n, c, k) == pytest.approx(share, abs=1e-12)


def test_pass_at_k_is_unbiased():
    p, n, k = 0.3, 5, 2
    expected = sum(
        p ** sum(o) * (1 - p) ** (n - sum(o)) * pass_at_k(n, sum(o), k) for o in itertools.product((0, 1), repeat=n)
    )
    assert expected == pytest.approx(1 - (1 - p) ** k, abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, 1, 5), (4, 1, 0), (4, -1, 1)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError, match="expected"):
        pass_at_k(n, c, k)


def test_wilson_interval_of_known_counts():
    estimate = wilson(8, 10)  # centre (0.8 + z²/20)/(1 + z²/10) = 0.7168, half width 0.2265
    assert (estimate.value, estimate.problems) == (0.8, 10)
    assert estimate.low == pytest.approx(0.490162, abs=1e-5)
    assert estimate.high == pytest.approx(0.943318, abs=1e-5)
    assert wilson(0, 10).low == 0.0
    assert wilson(10, 10).high == pytest.approx(1.0)


def test_the_bootstrap_resamples_problems():
    values = np.array([0.0, 1.0] * 50)
    estimate = mean_over_problems(values)
    assert estimate.value == 0.5
    assert estimate.low == pytest.approx(0.5 - 1.96 * 0.05, abs=0.015)
    assert estimate.high == pytest.approx(0.5 + 1.96 * 0.05, abs=0.015)
    assert mean_over_problems(values) == estimate


def test_equal_values_do_not_claim_certainty():
    estimate = mean_over_problems(np.ones(50))
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low == pytest.approx(wilson(50, 50).low)
    assert str(estimate) == "100.0 % [92.9, 100.0]"
