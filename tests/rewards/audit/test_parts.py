import pytest

from covey.rewards.audit.parts import TOTAL, agreement, inversions, of_length, report_parts
from covey.testing.samples import make_parts, make_scored

TWO = [
    make_parts({"right": [1, 0, 0, 1], "form": [0, 1, 0, 1]}, {"right": 1.0, "form": 0.5}),
    make_parts({"right": [1, 1], "form": [1, 0]}, {"right": 1.0, "form": 0.5}, uid="q"),
]


def test_each_part_decides_its_share_of_the_differences():
    """Totals 1, .5, 0, 1.5 (variance sum 1.25) and 1.5, 1 (.125): the part right gives 1.0, form .25 and .125."""
    right, form, total = report_parts(TWO, {"right": [0.2, 0.4]})
    assert right.influence == pytest.approx(1.0 / 1.375)
    assert form.influence == pytest.approx(0.375 / 1.375)
    assert (right.mean, right.judged, right.quartiles) == (pytest.approx(4 / 6), 6, (0.0, 0.25, 1.0, 1.0, 1.0))
    assert right.seconds == pytest.approx(0.3)
    assert form.seconds is None
    assert (total.name, total.weight, total.influence) == (TOTAL, None, None)


def test_what_is_missing_is_counted_and_not_nought():
    (part, total) = report_parts([make_parts({"a": [1.0, None, None]})], {})
    assert (part.judged, part.mean) == (1, 1.0)
    assert (total.judged, total.abstained) == (1, 2)


def test_equal_totals_decide_nothing():
    (part, _) = report_parts([make_parts({"a": [1.0, 1.0]})], {})
    assert part.influence is None


def test_agreement_is_within_groups():
    """Between the groups both parts rise together; within them they are opposed."""
    opposed = [make_parts({"a": [0, 1], "b": [1, 0]}), make_parts({"a": [10, 11], "b": [11, 10]}, uid="q")]
    assert agreement(opposed, "a", "b") == pytest.approx(-1.0)
    assert agreement([make_parts({"a": [0, 1], "b": [1, 1]})], "a", "b") is None


def test_length_that_is_paid_is_seen():
    assert of_length([make_scored([0, 1, 2], lengths=[1, 2, 3])]) == pytest.approx(1.0)
    assert of_length([make_scored([1, 1], lengths=[1, 2])]) is None


def test_wrong_ones_paid_as_much_as_right_ones_are_counted():
    scored = make_parts({"right": [1, 0, 0], "form": [0, 2, 0]})
    assert [score.correct for score in scored.scores] == [True, True, False]
    assert inversions([scored]) == (0, 2)
    flattered = make_scored([1.0, 0.9, 0.2])
    assert inversions([flattered]) == (0, 2)
