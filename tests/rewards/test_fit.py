import pytest

from covey.errors import PromptError
from covey.rewards import CodeTests, ExactNumber, MathAnswer, WeightedReward, judgeable
from covey.testing.samples import make_prompt

MATHS = [WeightedReward(reward=MathAnswer()), WeightedReward(reward=ExactNumber())]
PROMPTS = [
    make_prompt("number", answer="12"),
    make_prompt("words", answer="see the figure above"),
    make_prompt("formula", answer=r"\frac{x}{2}"),
    make_prompt("none", answer=None),
]


def test_prompts_with_an_unreadable_answer_are_left_out_and_named():
    kept, told = judgeable(PROMPTS, MATHS, "drop")
    assert [prompt.uid for prompt in kept] == ["number", "formula", "none"]
    assert told.startswith("1 of 4 prompts cannot be judged, e.g. 'words': math says: 'see the figure above'")


def test_they_may_stop_the_run_or_be_asked_anyway():
    with pytest.raises(PromptError, match="1 of 4 prompts cannot be judged"):
        judgeable(PROMPTS, MATHS, "error")
    assert judgeable(PROMPTS, MATHS, "keep") == (PROMPTS, "")


def test_nothing_left_stops_the_run():
    with pytest.raises(PromptError, match="1 of 1 prompts"):
        judgeable(PROMPTS[1:2], MATHS, "drop")


def test_nothing_is_said_where_all_can_be_judged():
    assert judgeable(PROMPTS[:1], MATHS, "error") == (PROMPTS[:1], "")


def test_tests_that_do_not_fit_together_are_found():
    apps = make_prompt("apps", tests={"inputs": ["1", "2"], "outputs": ["1"]})
    fine = make_prompt("fine", tests=[{"input": "1", "output": "1"}])
    kept, told = judgeable([apps, fine, make_prompt("untested")], [WeightedReward(reward=CodeTests())], "drop")
    assert [prompt.uid for prompt in kept] == ["fine", "untested"]
    assert "2 inputs and 1 outputs" in told
