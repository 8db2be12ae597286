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
