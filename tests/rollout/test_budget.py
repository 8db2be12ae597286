import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.rollout.budget import Extension, knapsack, neyman, neyman_shares


def value(rate, size):
    return (1 - rate**size - (1 - rate) ** size) * rate * (1 - rate) ** 2


def variance(rate, size):
    return rate * (1 - rate) / size


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=4), st.integers(1, 3), st.integers(0, 8))
def test_taking_the_largest_gain_is_the_optimum(rates, smallest, extra):
    largest, budget = 7, min(smallest * len(rates) + extra, 7 * len(rates))
    options = [s for s in itertools.product(range(smallest, largest + 1), repeat=len(rates)) if sum(s) == budget]
    sizes = knapsack(rates, budget, smallest, largest)
    assert sum(sizes) == budget
    best = max(sum(map(value, rates, s)) for s in options)
    assert sum(map(value, rates, sizes)) == pytest.approx(best, abs=1e-12)
    sizes = neyman(rates, budget, smallest, largest)
    assert sum(map(variance, rates, sizes)) == pytest.approx(
        min(sum(map(variance, rates, s)) for s in options), abs=1e-12
    )


def test_equal_rates_share_equally():
    assert knapsack([0.3] * 4, 32, 2, 64) == [8] * 4
    assert neyman([0.3] * 4, 30, 2, 64) == [8, 8, 7, 7]


def test_hopeless_and_solved_prompts_get_the_least():
    assert knapsack([0.0, 0.3, 1.0], 24, 2, 20) == [2, 20, 2]


def test_whole_numbers_are_near_the_real_shares():
    rates = [0.05, 0.3, 0.5, 0.9]
    np.testing.assert_allclose(neyman(rates, 320, 1, 320), neyman_shares(rates, 320), atol=1.0)


@pytest.mark.parametrize(("budget", "smallest", "largest"), [(3, 2, 8), (40, 2, 8), (8, 0, 8), (8, 9, 8)])
def test_a_budget_that_does_not_fit_is_refused(budget, smallest, largest):
    with pytest.raises(ValueError, match="budget"):
        knapsack([0.5, 0.5], budget, smallest, largest)


def test_the_hope_for_a_mixed_group():
    # eight failures, eight responses left, uniform prior: 1 - prod (9 + j) / (10 + j) = 1 - 9/17
    assert Extension.chance(0, 8, 8) == pytest.approx(8 / 17)
    assert Extension.chance(8, 0, 8) == pytest.approx(8 / 17)
    # a prior of hard prompts lowers it
    assert Extension.chance(0, 8, 8, (0.2, 3.8)) < 0.15


def test_when_extension_stops():
    rule = Extension(chunk=4, largest=10, hope=0.3)
    assert rule.more(1, 3) == 0  # mixed
    assert rule.more(0, 4) == 4  # 1 - 5/11 = 0.55 with six left
    assert rule.more(0, 8) == 0  # 1 - 9/11 = 0.18 with two left
    assert Extension(chunk=4, largest=10, hope=0.0).more(0, 8) == 2
    assert rule.more(0, 10) == 0
    assert Extension(chunk=4, right=2, wrong=2).more(1, 3) == 4
    assert Extension(largest=8).more(0, 0, drawn=4) == 0  # nobody could be judged
    assert Extension(chunk=8, largest=8).more(0, 3, drawn=7) == 1  # unjudged responses count towards the largest


def test_hope_is_for_the_kind_that_is_missing():
    rule = Extension(chunk=1, largest=42, right=40, wrong=1)
    assert rule.more(39, 1) == 1  # one right one more is all but certain
    assert Extension.chance(39, 1, 2, missing=(1, 0)) > 0.99
    # both kinds missing, two left, uniform prior: P(one of each) = 1/3
    assert Extension.chance(0, 0, 2, missing=(1, 1)) == pytest.approx(1 / 3)
    assert Extension.chance(0, 0, 1, missing=(1, 1)) == 0.0


def test_the_factor_of_extension_is_one_where_nothing_is_extended():
    never = Extension(chunk=4, largest=4, hope=0.0)
    assert never.scale(0.2, 4) == pytest.approx(1.0)
    assert Extension().scale(0.0, 4) == Extension().scale(1.0, 4) == 1.0


@pytest.mark.parametrize("knobs", [{"chunk": 0}, {"largest": 1}, {"right": 0}, {"hope": 1.0}])
def test_senseless_rules_are_refused(knobs):
    with pytest.raises(ValueError, match="expected"):
        Extension(**knobs)
