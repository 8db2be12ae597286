import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.batching.tree import grow, tree_of

FEW = st.lists(st.integers(0, 2), min_size=2, max_size=12)


def arrays(sequences):
    return [np.array(sequence) for sequence in sequences]


def ancestors(tree, column):
    """Columns that a token may see, by the definition: its own node up to itself, and whole nodes above."""
    seen = []
    for start, stop, end in tree.nodes:
        if start <= column < stop:
            seen += range(start, column + 1)
        elif stop <= column < end:
            seen += range(start, stop)
    return seen


def test_siblings_share_their_prompt():
    tree = tree_of(arrays([[7, 8, 9, 1, 2, 5], [7, 8, 9, 3, 5]]), shortest=3)
    assert tree.tokens.tolist() == [[7, 8, 9, 1, 2, 3]]
    assert tree.positions.tolist() == [[0, 1, 2, 3, 4, 3]]
    assert tree.nodes == ((0, 3, 6), (3, 5, 5), (5, 6, 6))
    assert tree.source.tolist() == [[-1, 0, 1, 2, 3, 4, -1, 0, 1, 2, 5]]


def test_a_beginning_shorter_than_worth_a_node_is_computed_again():
    tree = tree_of(arrays([[7, 8, 9, 1, 5], [7, 8, 9, 3, 5]]), shortest=4)
    assert tree.tokens.tolist() == [[7, 8, 9, 1, 7, 8, 9, 3]]
    assert tree.nodes == ((0, 4, 4), (4, 8, 8))


def test_turns_that_go_on_from_a_longer_beginning_share_that_too():
    first, second = [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8]
    tree = tree_of(arrays([[*first, 9, 9], [*second, 1, 9], [*second, 2, 9]]), shortest=3)
    assert tree.tokens.numel() == 4 + 1 + 4 + 1 + 1
    assert len(tree.nodes) == 5


def test_equal_responses_are_computed_once():
    assert tree_of(arrays([[1, 2, 3]] * 5), shortest=8).tokens.tolist() == [[1, 2]]
    assert tree_of(arrays([[1, 2, 3]] * 5), shortest=1).tokens.tolist() == [[1, 2]]


@given(st.lists(FEW, min_size=1, max_size=8), st.integers(1, 5))
def test_every_sequence_is_a_path(sequences, shortest):
    """What a cell's source sees is exactly the tokens before the cell, in order, at their positions."""
    tree, first = tree_of(arrays(sequences), shortest), 0
    for sequence in sequences:
        assert tree.source[0, first] == -1
        for t in range(1, len(sequence)):
            seen = ancestors(tree, int(tree.source[0, first + t]))
            assert tree.tokens[0, seen].tolist() == sequence[:t]
            assert tree.positions[0, seen].tolist() == list(range(t))
        first += len(sequence)
    assert tree.tokens.numel() <= sum(len(sequence) - 1 for sequence in sequences)


@given(st.lists(FEW, min_size=1, max_size=8))
def test_with_every_beginning_shared_no_token_is_there_twice(sequences):
    distinct = {tuple(sequence[: t + 1]) for sequence in sequences for t in range(len(sequence) - 1)}
    assert tree_of(arrays(sequences), shortest=1).tokens.numel() == len(distinct)


def test_no_sequences_make_no_branches():
    assert grow([]) == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_the_order_of_sequences_changes_their_cells_only(order):
    sequences = arrays([[1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 9, 9]])
    tree = tree_of([sequences[i] for i in order], shortest=2)
    assert tree.tokens.tolist() == [[1, 2, 3, 4, 9]]
