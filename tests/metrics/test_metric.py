import math

import pytest
import torch

from covey.metrics.metric import Maximum, Mean, Sum, masked_mean, merge


def test_means_are_weighted_and_never_averaged_twice():
    parts = [{"x": Mean(3.0, 1)}, {"x": Mean(3.0, 3)}]  # values 3 and 1; the mean of all four is 1.5, not 2
    assert merge(parts) == {"x": 1.5}


def test_each_kind_reduces_in_its_own_way():
    parts = [{"s": Sum(1.0), "m": Maximum(2.0)}, {"s": Sum(2.0), "m": Maximum(-1.0)}]
    assert merge(parts) == {"s": 3.0, "m": 2.0}


def test_nothing_to_measure_is_nan_not_zero():
    assert math.isnan(Mean(0.0, 0.0).value)


def test_a_nan_is_not_hidden_by_a_maximum():
    assert math.isnan((Maximum(1.0) + Maximum(math.nan)).value)
    assert math.isnan((Maximum(math.nan) + Maximum(1.0)).value)


def test_a_name_has_one_kind():
    with pytest.raises(TypeError, match="both"):
        merge([{"x": Sum(1.0)}, {"x": Mean(1.0, 1.0)}])


def test_masked_mean_ignores_whatever_is_masked():
    values = torch.tensor([[1.0, math.nan], [math.inf, 3.0]])
    assert masked_mean(values, torch.tensor([[True, False], [False, True]])).value == 2.0
