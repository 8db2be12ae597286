"""Where answers are found, and that looking for them takes time in proportion to the text."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.rewards.extract import PLACES, final_answer, last_boxed, last_formula

FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
"""What a formula is, as a pattern: it reads a text of unclosed signs once for each of them."""


@settings(max_examples=3000, deadline=None)
@given(st.lists(st.sampled_from(["$", "$$", r"\(", r"\)", r"\[", r"\]", "a", " ", "\n"]), max_size=14).map("".join))
def test_the_last_formula_is_that_of_the_pattern(text):
    found = FORMULA.findall(text)
    assert last_formula(text) == (next(part for part in found[-1] if part).strip() if found else None)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{8} \boxed{7}", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed 5", "5"),
        (r"\fbox{a\}b}", r"a\}b"),
        (r"{\boxed{3}", "3"),
        (r"\boxed {4}", "4"),
        (r"\boxed", None),
        (r"\boxed{}", ""),
    ],
)
def test_the_last_box_that_is_closed(text, content):
    assert last_boxed(text) == content


HOSTILE = {
    "boxes": r"\boxed{" * 100_000,
    "closed boxes": r"\boxed{" * 50_000 + "}" * 50_000,
    "parentheses": r"\(" * 200_000,
    "brackets": r"\[" * 200_000,
    "dollars": "$" * 400_001,
    "pairs": "$$a" * 100_000,
    "answers": "answer is " * 50_000,
    "blanks": "answer" + " " * 300_000,
    "hashes": "#" * 300_000,
    "elements": "<answer>" * 50_000,
    "backslashes": "\\" * 300_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_long(text):
    began = time.perf_counter()
    for place in (*PLACES, "tag:answer"):
        final_answer(text, [place])
    assert time.perf_counter() - began < 2.0
