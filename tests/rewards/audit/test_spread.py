from itertools import combinations, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.rewards.audit.spread import chance_of_spread


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=7), st.integers(2, 7))
def test_up_to_their_number_it_is_the_share_of_subsets(values, size):
    subsets = list(combinations(values, size))
    expected = sum(len(set(subset)) > 1 for subset in subsets) / len(subsets) if subsets else None
    if expected is not None:
        assert chance_of_spread(values, size, [0.0, 0.5, 1.0]) == pytest.approx(expected)


def test_beyond_it_is_the_posterior_chance_by_enumeration():
    """Two wrong ones, right and wrong known: every way that three more could come out, under Dirichlet(2.5, 0.5)."""
    chance = 0.0
    for more in product([0, 1], repeat=3):
        ones = sum(more)
        counts = prod(2.5 + i for i in range(3 - ones)) * prod(0.5 + i for i in range(ones))
        chance += counts / (3.0 * 4.0 * 5.0) if ones else 0.0
    assert chance_of_spread([0.0, 0.0], 5, [0.0, 1.0]) == pytest.approx(chance)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=6))
def test_it_never_falls_with_the_size(values):
    chances = [chance_of_spread(values, size, [0.0, 1.0]) for size in range(1, 20)]
    assert chances == sorted(chances)
    assert chances[0] == 0.0


def test_rounding_is_no_difference():
    assert chance_of_spread([0.1 + 0.2, 0.3], 2) == 0.0
