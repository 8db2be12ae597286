import time

import pytest

from covey.rewards.edit_similarity import EditSimilarity
from covey.testing.samples import make_prompt


@pytest.mark.parametrize(
    ("gold", "reply", "unit", "value"),
    [
        ("kitten", "sitting", "characters", 1 - 3 / 7), ("kitten", " kitten\n", "characters", 1.0), ("kitten", "", "characters", 0.0), ("abc", "ABC", "characters", 0.0),
        ("the cat sat", "the dog sat", "words", 1 - 1 / 3), ("the cat", "the  cat\n", "words", 1.0), ("a b", "b a", "words", 0.0), ("a b c d", "a c d e", "words", 0.5),
        ("héé", "hé", "characters", 1 - 1 / 3), ("a", "b" * 9, "characters", 0.0),
    ],
)  # fmt: skip
def test_one_minus_edits_over_the_longer_length(gold, reply, unit, value):
    part = EditSimilarity(unit=unit).judge(make_prompt(answer=gold), reply)
    assert part.value == pytest.approx(value, abs=1e-12)
    assert part.correct is None
    assert part.why


def test_what_is_too_long_is_not_read():
    assert EditSimilarity(longest=5).judge(make_prompt(answer="abcde"), "abcdef").value == 0.0
    assert EditSimilarity(longest=5).judge(make_prompt(answer="abcde"), "abcde").value == 1.0
    part = EditSimilarity(longest=5).judge(make_prompt(answer="abcdef"), "abcdef")
    assert (part.value, part.why) == (None, "the expected answer has 6 characters, longest is 5")
    assert EditSimilarity(longest=5).unfit(make_prompt(answer="abcdef")) == part.why
    assert EditSimilarity(longest=5, unit="words").unfit(make_prompt(answer="abcdef")) is None
    assert EditSimilarity().judge(make_prompt(answer=None), "x").value is None


def test_the_longest_texts_take_no_time():
    began = time.monotonic()
    part = EditSimilarity().judge(make_prompt(answer="ab" * 10_000), "ba" * 10_000)
    assert time.monotonic() - began < 3
    assert part.value == 1 - 2 / 20_000


@pytest.mark.parametrize("knobs", [{"unit": "tokens"}, {"longest": 0}])
def test_settings_without_sense_are_refused(knobs):
    with pytest.raises(ValueError, match="expected, got"):
        EditSimilarity(**knobs)
