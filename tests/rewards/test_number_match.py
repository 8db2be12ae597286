from fractions import Fraction

import pytest

from covey.rewards.number_match import NumberMatch, read_decimal
from covey.testing.samples import make_prompt


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("221", 221), (" 221. ", 221), ("+5", 5), ("-0.50", Fraction(-1, 2)), ("1,234,567.5", Fraction(2469135, 2)), ("1 234 567", 1234567), ("1\u202f234", 1234),
        ("$3.10", Fraction(31, 10)), (".5", Fraction(1, 2)), ("5.", 5), ("−7", -7), ("2.5e-3", Fraction(1, 400)), ("1E3", 1000), ("007", 7), ("12\\,345", 12345),
        ("", None), ("-", None), (".", None), ("two", None), ("12,34", None), ("1,234 567", None), ("3/4", None), ("50%", None), ("3 4", None), ("0x1f", None), ("inf", None),
        ("nan", None), ("1e9999", None), ("9" * 5000, None), ("1.2.3", None), ("٣", None), ("--3", None), ("e5", None), ("1_000", None), ("1,2345", None),
    ],
)  # fmt: skip
def test_decimal_numbers_as_people_write_them(text, number):
    assert read_decimal(text) == number


@pytest.mark.parametrize(
    ("text", "number"), [("1.234,5", Fraction(2469, 2)), ("1.234", 1234), ("1,5", Fraction(3, 2)), ("1,234,567", None)]
)
def test_the_point_may_be_a_comma(text, number):
    assert read_decimal(text, ",") == number


@pytest.mark.parametrize(
    ("gold", "found", "knobs", "right"),
    [
        ("0.3", "0.30", {}, True), ("0.3", "0.30000000000000004", {}, False), ("1234", "1,234.0", {}, True), ("100", "101", {"rel_tol": 0.01}, True),
        ("100", "101.0001", {"rel_tol": 0.01}, False), ("-100", "-99", {"rel_tol": 0.01}, True), ("0", "0.1", {"abs_tol": 0.1}, True), ("0", "0.1", {"rel_tol": 0.9}, False),
        ("1", "1.1", {"abs_tol": 0.1}, True), ("10", "11", {"abs_tol": 0.5, "rel_tol": 0.1}, True), ("1,5", "1,50", {"point": ","}, True), ("5", "five", {}, False),
    ],
)  # fmt: skip
def test_right_within_the_tolerance(gold, found, knobs, right):
    part = NumberMatch(**knobs).judge(make_prompt(answer=gold), f"<answer>{found}</answer>")
    assert (part.value, part.correct) == (float(right), right)
    assert part.why


def test_no_answer_is_wrong():
    part = NumberMatch().judge(make_prompt(answer="5"), "5")
    assert (part.value, part.correct, part.why) == (0.0, False, "no answer found")


@pytest.mark.parametrize("gold", [None, "", "x=3", "3/4"])
def test_an_answer_that_is_no_number_cannot_be_judged(gold):
    part = NumberMatch().judge(make_prompt(answer=gold), "<answer>3</answer>")
    assert (part.value, part.correct) == (None, None)
    assert part.why == ("there is no answer to compare with" if gold is None else f"{gold!r} is not a number")
    assert NumberMatch().unfit(make_prompt(answer=gold)) == (None if gold is None else part.why)


@pytest.mark.parametrize(
    "knobs", [{"rel_tol": 1.0}, {"rel_tol": -0.1}, {"abs_tol": float("inf")}, {"abs_tol": float("nan")}, {"point": "-"}]
)
def test_settings_without_sense_are_refused(knobs):
    with pytest.raises(ValueError, match="expected, got"):
        NumberMatch(**knobs)
