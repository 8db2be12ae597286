from fractions import Fraction

import pytest

from covey.rewards import ExactNumber
from covey.rewards.exact_number import parse_number
from covey.testing.samples import make_prompt


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("221", 221), (" 221. ", 221), ("+5", 5), ("-0.50", Fraction(-1, 2)), ("1,234,567", 1234567),
        ("$3.10", Fraction(31, 10)), ("3/4", Fraction(3, 4)), ("1.5/2", Fraction(3, 4)), (".5", Fraction(1, 2)), ("−7", -7), ("007", 7),
        ("", None), ("two", None), ("1e5", None), ("12,34", None), ("1/0", None), ("3 4", None), ("0x1f", None),
        ("9" * 5000, None), ("1.2.3", None), ("٣", None), ("--3", None), ("inf", None), ("nan", None),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("<answer>221</answer>", 1.0), ("13×17=221\n<answer> 221.0 </answer>", 1.0), ("<answer>442/2</answer>", 1.0),
        ("<answer>5</answer> no, <answer>221</answer>", 1.0), ("<answer>221</answer> no, <answer>5</answer>", 0.0),
        ("<answer><answer>221</answer>", 1.0), ("221", 0.0), ("<answer>221", 0.0), ("</answer>221<answer>", 0.0), ("", 0.0),
        ("<answer>13×17=221</answer>", 0.0), ("<answer>221 or 222</answer>", 0.0), ("<answer></answer>", 0.0),
    ],
)  # fmt: skip
def test_the_last_closed_answer_counts(reply, value):
    part = ExactNumber().judge(make_prompt(answer="221"), reply)
    assert (part.value, part.correct) == (value, value == 1.0)
    assert part.why


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("it is 221.", 1.0),
        ("221 apples of 300", 0.0),
        ("1,221", 0.0),
        ("4-3", 0.0),
        ("is -221", 0.0),
        ("442-221", 1.0),
        ("", 0.0),
    ],
)
def test_without_a_tag_the_last_number_counts(reply, value):
    assert ExactNumber(tag="").judge(make_prompt(answer="221"), reply).value == value


@pytest.mark.parametrize("gold", [None, "", "x=3"])
def test_an_answer_that_is_no_number_cannot_be_judged(gold):
    part = ExactNumber().judge(make_prompt(answer=gold), "<answer>3</answer>")
    assert (part.value, part.correct) == (None, None)
    assert part.why == ("there is no answer to compare with" if gold is None else f"{gold!r} is not a number")
