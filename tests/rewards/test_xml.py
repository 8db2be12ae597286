import time

import pytest

from covey.rewards.xml import Xml
from covey.testing.samples import make_prompt


def value(reply, **knobs):
    part = Xml(**knobs).judge(make_prompt(), reply)
    assert part.correct is None
    assert bool(part.why) == (part.value == 0.0)
    return part.value


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<think>a</think><answer>b</answer>", 1.0), ("\n<think>a &lt; b</think>\n <answer/>\n", 1.0), ("<think><![CDATA[<b>]]></think><answer>2</answer>", 1.0),
        ("<think>a</think>so<answer>b</answer>", 0.0), ("Well <think>a</think><answer>b</answer>", 0.0), ("<answer>b</answer><think>a</think>", 0.0),
        ("<think>a</think>", 0.0), ("<think>a</think><answer>b</answer><answer>c</answer>", 0.0), ("<think><answer>b</answer></think>", 0.0),
        ("<think>a</think><answer><b>2</b></answer>", 0.0), ("<think>a < b</think><answer>b</answer>", 0.0), ("<think>a</think><answer>b", 0.0),
        ("<think>a</think><answer x='1'>b</answer>", 0.0), ("<think>&e;</think><answer>b</answer>", 0.0), ("<!-- a --><think>a</think><answer>b</answer>", 0.0),
        ("<?a b?><think>a</think><answer>b</answer>", 0.0), ("<think><!-- a --></think><answer>b</answer>", 1.0), ("<Think>a</Think><answer>b</answer>", 0.0),
        ("</root><root>", 0.0), ("<think>a</think><answer>b</answer></root><root>", 0.0), ("", 0.0), ("\ud800", 0.0),
        ("\u00a0<think>a</think><answer>b</answer>", 0.0), ("<root><think>a</think><answer>b</answer></root>", 0.0),
        ('<!DOCTYPE x [<!ENTITY a "b">]><think>&a;</think><answer>b</answer>', 0.0), ('<?xml version="1.0"?><think>a</think><answer>b</answer>', 0.0),
    ],
)  # fmt: skip
def test_the_wanted_elements_and_nothing_else(reply, expected):
    assert value(reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Hm. <think>a</think> so <b>x<think>y</think></b> <answer>b</answer>!", 1.0), ("<!-- a --><think>a</think><answer>b</answer>", 1.0),
        ("<think>a <b>x</b></think><answer>b</answer>", 0.0), ("1 < 2 <think>a</think><answer>b</answer>", 0.0),
        ("<think>a</think><answer>b</answer><answer>c</answer>", 0.0), ("<b><think>a</think><answer>b</answer></b>", 0.0),
    ],
)  # fmt: skip
def test_anything_may_stand_outside_if_allowed(reply, expected):
    assert value(reply, outside="anything") == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<a>so <b>1</b> and <c/></a><d/>", 1.0), ("<a><c/><b>1</b></a><d/>", 0.0), ("<a><b>1</b></a><d/>", 0.0), ("<a><b><c/></b></a><d/>", 0.0),
        ("<a/><b>1</b><c/><d/>", 0.0),
    ],
)  # fmt: skip
def test_elements_inside_others_are_listed(reply, expected):
    assert value(reply, elements=("a", "a/b", "a/c", "d")) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "<think>" * 200_000,
        "<b>" * 200_000,
        "<think>" + "x" * 3_000_000,
        "<think>" + "&lt;" * 300_000,
        "<" * 1_000_000,
        "<!--" * 300_000,
    ],
    ids=lambda r: r[:12],
)
def test_hostile_replies_take_no_time(reply):
    began = time.monotonic()
    assert value(reply, outside="anything") == 0.0
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    "knobs",
    [
        {"elements": ()},
        {"elements": ("a", "a")},
        {"elements": ("a/b", "a")},
        {"elements": ("a b",)},
        {"elements": ("",)},
        {"outside": "text"},
    ],
)
def test_settings_without_sense_are_refused(knobs):
    with pytest.raises(ValueError, match="got"):
        Xml(**knobs)
