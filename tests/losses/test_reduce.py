import pytest
import torch

from covey.losses import ConstantLength
from covey.losses.sequence import trained_per_sequence


def test_sequences_are_counted_by_segment_not_by_row():
    trained = torch.tensor([[False, True, True, False, True, False], [True, True, True, False, False, False]])
    segment = torch.tensor([[0, 0, 0, 1, 1, -1], [2, 2, 2, -1, -1, -1]])
    assert trained_per_sequence(trained, segment).tolist() == [[2, 2, 2, 1, 1, 0], [3, 3, 3, 0, 0, 0]]


def test_all_padding_counts_nothing():
    empty = torch.zeros(1, 3, dtype=torch.bool)
    assert trained_per_sequence(empty, torch.full((1, 3), -1)).tolist() == [[0, 0, 0]]


def test_constant_length_must_be_positive():
    with pytest.raises(ValueError, match="at least 1"):
        ConstantLength(length=0)
