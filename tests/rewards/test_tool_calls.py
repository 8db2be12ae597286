import asyncio
import json
import time

import pytest

from covey.rewards import ScoreContext
from covey.rewards.tool_calls import ToolCalls
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

TOOLS = [
    {"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "required": ["a", "b"], "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "additionalProperties": False,
    }}},
    {"name": "now"},
]  # fmt: skip


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def judge(reply, reward=None, **columns):
    prompt = make_prompt(**{"tools": TOOLS, **columns})
    members = (make_trajectory("p", 0, reply=reply),)
    (part,) = asyncio.run(
        (reward or ToolCalls(deadline=10.0)).score_group(Group(prompt=prompt, members=members), ScoreContext())
    )
    return part


@pytest.mark.parametrize(
    ("reply", "value", "why"),
    [
        (call("add", a=1, b=2), 1.0, ""), ("I add.\n" + call("add", a=1, b=2) + "\n" + call("now"), 1.0, ""), ("<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", 1.0, ""),
        ("2", 0.0, "0 calls, 1 expected"), (call("add", a=1), 0.0, "'b' is a required"), (call("add", a=1, b="2"), 0.0, "$.b"), (call("add", a=1, b=2, c=3), 0.0, "unexpected"),
        (call("sub", a=1), 0.0, "no tool 'sub'"), (call("add", a=1, b=2) + call("sub"), 0.0, "no tool 'sub'"), (call("now") + "<tool_call>", 0.0, "closed 0 times"),
        ("</tool_call>" + call("now"), 0.0, "without <tool_call>"), (call("now") + "</tool_call>", 0.0, "closed 2 times"), ("<tool_call>{}</tool_call>", 0.0, "keys name and arguments"),
        ('<tool_call>{"name": "now", "arguments": "{}"}</tool_call>', 0.0, "arguments an object"), ('<tool_call>{"name": "now", "arguments": {}, "id": 1}</tool_call>', 0.0, "alone"),
        ('<tool_call>{"name": "now", "arguments": {"a": 1, "a": 2}}</tool_call>', 0.0, "call 1: key 'a' stands twice"), ("<tool_call>now()</tool_call>", 0.0, "call 1"),
    ],
)  # fmt: skip
def test_all_calls_are_valid(reply, value, why):
    part = judge(reply)
    assert (part.value, part.correct, part.error) == (value, None, None)
    assert why in part.why


def test_so_many_calls_are_wanted():
    assert [judge(call("now") * n, ToolCalls(at_least=2, deadline=10.0)).value for n in (0, 1, 2, 3)] == [
        0.0,
        0.0,
        1.0,
        1.0,
    ]
    assert judge("none", ToolCalls(at_least=0)).value == 1.0


EXPECTED = [{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "now", "arguments": {}}]


@pytest.mark.parametrize(
    ("reply", "ordered", "unordered"),
    [
        (call("add", b=2.0, a=1) + call("now"), True, True), (call("now") + call("add", a=1, b=2), False, True), (call("add", a=1, b=2), False, False),
        (call("add", a=1, b=2) + call("now") * 2, False, False), (call("add", a=1, b=3) + call("now"), False, False), ("", False, False), (call("sub"), False, False),
        (call("now"), False, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("expected", [EXPECTED, json.dumps(EXPECTED)], ids=["list", "text"])
def test_calls_that_are_expected_make_it_right_or_wrong(reply, ordered, unordered, expected):
    for order, right in ((True, ordered), (False, unordered)):
        part = judge(reply, ToolCalls(order=order, deadline=10.0), expected_calls=expected)
        assert (part.value, part.correct) == (float(right), right)
        assert bool(part.why) == (not right)


def test_no_call_can_be_what_is_expected():
    assert judge("I cannot.", expected_calls=[]).correct is True
    assert judge(call("now"), expected_calls=[]).correct is False


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"tools": None}, "no list of tools"), ({"tools": []}, "no list of tools"), ({"tools": "[{]"}, "Expecting"), ({"tools": [{"a": 1}]}, "without a name"),
        ({"tools": [{"name": "x", "parameters": {"type": "y"}}]}, "tool 'x': the JSON schema is broken"), ({"expected_calls": 3}, "list of calls"),
        ({"expected_calls": [{"name": "add"}]}, "keys name and arguments"),
    ],
)  # fmt: skip
def test_a_prompt_that_cannot_be_read_is_not_judged(columns, why):
    part = judge(call("now"), **columns)
    assert (part.value, part.correct, part.error) == (None, None, None)
    assert why in part.why
    unfit = ToolCalls().unfit(make_prompt(**{"tools": TOOLS, **columns}))
    assert unfit == (None if columns.get("tools", TOOLS) is None else part.why)


def test_tools_may_be_text():
    assert judge(call("now"), tools=json.dumps(TOOLS)).value == 1.0
    assert ToolCalls().unfit(make_prompt(tools=json.dumps(TOOLS), expected_calls=EXPECTED)) is None


def test_hostile_replies_take_no_time():
    slow = [{"name": "slow", "parameters": {"properties": {"a": {"pattern": "^(a+)+$"}}}}]
    began = time.monotonic()
    for reply in ("<tool_call>" * 100_000, "</tool_call>" * 100_000, "<tool_call>" + "[" * 500_000 + "</tool_call>"):
        assert judge(reply).value == 0.0
    part = judge(call("slow", a="a" * 60 + "b"), ToolCalls(deadline=0.5), tools=slow)
    assert part.value == 0.0
    assert "timeout" in part.why
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("knobs", [{"at_least": -1}, {"deadline": 0}, {"workers": 0}])
def test_settings_without_sense_are_refused(knobs):
    with pytest.raises(ValueError, match="expected, got"):
        ToolCalls(**knobs)
