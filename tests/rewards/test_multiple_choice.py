import time

import pytest

from covey.rewards.multiple_choice import MultipleChoice, read_choice
from covey.testing.samples import make_prompt


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"), ("b", "B"), ("(B)", "B"), ("[b]", "B"), ("( B )", "B"), ("B.", "B"), ("B)", "B"), ("b)", "B"), ("b.", "B"), ("**B**", "B"), ("**(B)** Paris", "B"), ("B. Paris", "B"), ("(A) man", "A"),
        ("B: Paris", "B"), ("B) Paris", "B"), ("\\text{B}", "B"), ("$\\textbf{(B)}$", "B"), ("\\text{(B) }Paris", "B"), ("\\mathrm{\\text{B}}", None), ("option B", "B"), ("The correct answer is (C).", "C"),
        ("Answer: D", "D"), ("B because it rains", "B"), ("J", "J"), ("\\boxed{E}", "E"), ("(A", None),
        ("A man", None), ("a man", None), ("A", "A"), ("Boston", None), ("K", None), ("A or B", None), ("(A) or (B)", None), ("(A), (B)", None), ("A, B", None), ("A/B", None), ("B) and C)", None),
        ("A. Paris (B) Rome", None), ("i.e. Paris", None), ("e. g. Paris", None), ("A.D. 1066", None), ("AB", None), ("", None), ("I think so", None), ("Because", None), ("2", None),
    ],
)  # fmt: skip
def test_one_letter_however_it_is_written(text, letter):
    assert read_choice(text) == letter


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("\\boxed{\\text{B}}", True), ("<answer>(B)</answer>", True), ("So the answer is **B**.", True), ("B", True), ("B. Paris", True), ("The answer is B because of it.", True),
        ("\\boxed{A}", False), ("A man went to B", False), ("The answer is a man.", False), ("(A) or (B)", False), ("", False), ("\\boxed{B} no, \\boxed{C}", False),
    ],
)  # fmt: skip
def test_the_letter_is_the_prompts(reply, right):
    part = MultipleChoice().judge(make_prompt(answer="(B) Paris"), reply)
    assert (part.value, part.correct) == (float(right), right)
    assert part.why


@pytest.mark.parametrize("gold", [None, "", "Paris", "A or B"])
def test_an_answer_that_names_no_letter_cannot_be_judged(gold):
    part = MultipleChoice().judge(make_prompt(answer=gold), "B")
    assert (part.value, part.correct) == (None, None)
    assert part.why
    assert MultipleChoice().unfit(make_prompt(answer=gold)) == (None if gold is None else part.why)


@pytest.mark.parametrize(
    "text",
    [
        "answer " * 50_000,
        "the" + " " * 200_000,
        "B)" + " and" * 50_000,
        "(" * 200_000,
        "B." + "[a" * 100_000,
        "\\text{" * 50_000,
        "B" + ") " * 100_000,
    ],
)
def test_hostile_texts_take_no_time(text):
    began = time.monotonic()
    read_choice(text)
    assert time.monotonic() - began < 1
