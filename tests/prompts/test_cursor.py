import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.errors import PromptError
from covey.prompts.cursor import Cursor
from covey.testing.samples import make_prompt

takes = st.lists(st.integers(1, 12), min_size=1, max_size=8)


def cursor_of(n, seed=0):
    return Cursor([make_prompt(uid=str(i)) for i in range(n)], seed)


@given(n=st.integers(1, 9), seed=st.integers(0, 1000), sizes=takes)
def test_every_epoch_is_a_permutation_however_it_is_taken(n, seed, sizes):
    cursor = cursor_of(n, seed)
    taken = [prompt.uid for size in sizes for prompt in cursor.take(size)]
    for start in range(0, len(taken) - n + 1, n):
        assert sorted(taken[start : start + n], key=int) == [str(i) for i in range(n)]


@given(n=st.integers(1, 9), seed=st.integers(0, 1000), before=takes, after=takes)
def test_a_restored_cursor_goes_on_exactly(n, seed, before, after):
    cursor, other = cursor_of(n, seed), cursor_of(n, seed)
    for size in before:
        cursor.take(size)
    other.load_state(cursor.state())
    for size in after:
        assert [p.uid for p in cursor.take(size)] == [p.uid for p in other.take(size)]


@given(n=st.integers(1, 9), seed=st.integers(0, 1000), sizes=takes)
def test_no_take_holds_a_prompt_twice_unless_it_must(n, seed, sizes):
    cursor = cursor_of(n, seed)
    for size in sizes:
        uids = [prompt.uid for prompt in cursor.take(size)]
        assert len(uids) == size
        assert size > n or len(set(uids)) == size
        assert all(isinstance(value, int) for value in cursor.state().values())


def test_the_seam_passes_over_what_the_take_holds_and_the_next_take_begins_with_it():
    first, second = ([int(i) for i in np.random.default_rng([2, epoch]).permutation(5)] for epoch in (0, 1))
    assert (first, second) == ([2, 4, 3, 0, 1], [0, 2, 4, 3, 1])
    cursor = cursor_of(5, seed=2)
    assert [int(prompt.uid) for prompt in cursor.take(3)] == [2, 4, 3]
    assert [int(prompt.uid) for prompt in cursor.take(4)] == [0, 1, 2, 4]  # 0 begins the second order: passed over
    assert cursor.state() == {"epoch": 1, "position": 3, "passed_over": 0b1}
    assert [int(prompt.uid) for prompt in cursor.take(2)] == [0, 3]
    assert cursor.state() == {"epoch": 1, "position": 4, "passed_over": 0}


def test_a_set_smaller_than_one_step_wraps():
    uids = [prompt.uid for prompt in cursor_of(3).take(8)]
    assert sorted(uids[:3]) == sorted(uids[3:6]) == ["0", "1", "2"]


def test_the_order_is_a_function_of_seed_and_epoch_alone():
    cursor = cursor_of(6, seed=1)
    cursor.load_state({"epoch": 3, "position": 0})
    expected = np.random.default_rng([1, 3]).permutation(6)
    assert [int(prompt.uid) for prompt in cursor.take(6)] == expected.tolist()


def test_a_state_of_a_larger_data_set_is_refused():
    with pytest.raises(PromptError, match="only 2 prompts; resume with the data set"):
        cursor_of(2).load_state({"epoch": 0, "position": 3})


def test_seeds_and_epochs_give_different_orders():
    orders = [[p.uid for p in cursor_of(20, seed).take(20)] for seed in (0, 1)]
    cursor = cursor_of(20)
    cursor.take(20)
    orders.append([p.uid for p in cursor.take(20)])
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert cursor.epoch == 1


def test_no_prompts_and_nothing_taken_are_errors():
    with pytest.raises(PromptError, match="no prompts"):
        Cursor([], 0)
    with pytest.raises(ValueError, match="at least one"):
        cursor_of(2).take(0)
