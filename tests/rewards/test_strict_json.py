import time

import pytest

from covey.rewards.strict_json import canonical, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, "x", null, true]}', {"a": [1, 2.5, "x", None, True]}), (" 3\n", 3), ('"[[["', "[[["), (r'"\"[\\"', '"[\\'),
        ("[" * 64 + "]" * 64, None), ("1e300", 1e300), ('[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
    ],
)  # fmt: skip
def test_json_as_the_standard_has_it(text, value):
    assert value is None or parse(text) == value
    parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("NaN", "NaN is no JSON"), ("[-Infinity]", "-Infinity is no JSON"), ("1e999", "too large"), ('{"a": 1, "a": 2}', "'a' stands twice"),
        (r'{"a": 1, "\u0061": 2}', "'a' stands twice"), ("[" * 65 + "]" * 65, "more than 64 levels"), ("9" * 5000, "5000 characters"),
        ("{} x", "Extra data"), ("{'a': 1}", "property name"), ("[1,]", "Expecting value"), ("", "Expecting value"), ('"\n"', "control character"), ("01", "Extra data"),
        ("[1] // why", "Extra data"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        parse(text)


@pytest.mark.parametrize(
    "text", ["[" * 300_000, '{"a":' * 300_000, '"\\' * 300_000, '"' + '\\"' * 300_000, "[" + "1," * 300_000]
)
def test_hostile_texts_take_no_time(text):
    began = time.monotonic()
    with pytest.raises(ValueError):  # noqa: PT011
        parse(text)
    assert time.monotonic() - began < 3


def test_one_text_for_one_value():
    assert canonical({"b": 1.0, "a": [2]}) == canonical({"a": [2.0], "b": 1}) == '{"a": [2], "b": 1}'
    assert len({canonical(value) for value in (1, True, "1", [1], 1.5, None)}) == 6
