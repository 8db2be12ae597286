import pytest

from covey.rewards import Tags
from covey.testing.samples import make_prompt


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("<think>a</think><answer>b</answer>", 1.0), ("x<think></think> <answer></answer>y", 1.0),
        ("<answer>b</answer><think>a</think>", 0.0), ("<think>a<answer>b</think></answer>", 0.0),
        ("<think>a</think><answer>b", 0.0), ("<think>a</think><answer>b</answer><answer>c</answer>", 0.0), ("", 0.0),
    ],
)  # fmt: skip
def test_each_tag_once_closed_and_in_order(reply, value):
    part = Tags(tags=("think", "answer")).judge(make_prompt(), reply)
    assert part.value == value
    assert part.correct is None
    assert bool(part.why) == (value == 0.0)


def test_no_tags_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Tags(tags=())
