import time

import pytest

from covey.errors import ConfigError
from covey.rewards.string_match import StringMatch
from covey.testing.samples import make_prompt


@pytest.mark.parametrize(
    ("gold", "reply", "right"),
    [
        ("Paris", "<answer>paris</answer>", True), ("Paris", "<answer> P\uff41ris\n</answer>", True), ("New York", "\\boxed{new   york}", True), ("Straße", "#### STRASSE", True),
        ("fi", "<answer>\ufb01</answer>", True), ("caf\u00e9", "the answer is cafe\u0301.", True), ("Paris", "<answer>Paris, France</answer>", False), ("Paris", "Paris", False),
        ("Paris", "<answer>Paris</answer><answer>Rome</answer>", False), ("Paris", "<answer></answer>", False), ("Paris", "", False), ("a b", "<answer>ab</answer>", False),
    ],
)  # fmt: skip
def test_equal_after_normalisation(gold, reply, right):
    part = StringMatch().judge(make_prompt(answer=gold), reply)
    assert (part.value, part.correct) == (float(right), right)
    assert part.why


def test_each_step_of_normalising_can_be_left_out():
    def right(gold, found, **knobs):
        return StringMatch(places=("whole",), **knobs).judge(make_prompt(answer=gold), found).correct

    assert not right("Paris", "paris", casefold=False)
    assert not right("fi", "\ufb01", nfkc=False, casefold=False)
    assert not right("a b", "a  b", blanks=False)
    assert right("a b", " a b ", blanks=False)


@pytest.mark.parametrize("gold", [None, "", " \n", "x" * 10_001])
def test_an_answer_that_cannot_be_compared_with(gold):
    part = StringMatch().judge(make_prompt(answer=gold), "<answer>x</answer>")
    assert (part.value, part.correct) == (None, None)
    assert part.why
    assert StringMatch().unfit(make_prompt(answer=gold)) == (None if gold is None else part.why)


def test_long_answers_are_wrong_unread():
    began = time.monotonic()
    part = StringMatch(places=("whole",)).judge(make_prompt(answer="a"), "a" + "\u0300\u0316" * 500_000)
    assert time.monotonic() - began < 1
    assert (part.value, part.why) == (0.0, "an answer of 1000001 characters")


def test_unknown_places_are_refused():
    with pytest.raises(ConfigError, match="'middle'"):
        StringMatch(places=("middle",))
