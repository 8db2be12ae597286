import json
import time

import pytest

from covey.errors import ConfigError
from covey.rewards.json_schema import JsonSchema
from covey.testing.samples import make_prompt

PERSON = {
    "type": "object", "required": ["name"], "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "age": {"$ref": "#/$defs/count"}}, "$defs": {"count": {"type": "integer", "minimum": 0}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "value", "why"),
    [
        ('{"name": "Ada"}', 1.0, ""), (' {"name": "Ada", "age": 36} \n', 1.0, ""), ('so\n```json\n{"name": "Ada"}\n```\ndone', 1.0, ""),
        ('```json\n{"name": 1}\n```\n```json\n{"name": "Ada"}\n```', 1.0, ""), ('```\n{"name": "Ada"}\n```', 1.0, ""),
        ('{"name": "Ada", "age": -1}', 0.0, "$.age: -1 is less than"), ('{"age": 3}', 0.0, "'name' is a required"), ('{"name": "a", "x": 1}', 0.0, "unexpected"),
        ('{"name": "Ada", "name": "Bob"}', 0.0, "stands twice"), ('{"name": NaN}', 0.0, "no JSON: NaN"), ('Here: {"name": "Ada"}', 0.0, "no JSON"),
        ('```json\n{"name": "Ada"}', 0.0, "no JSON"), ("", 0.0, "nothing at block, whole"), ("[" * 100_000, 0.0, "levels deep"), ("[]", 0.0, "not of type"),
    ],
)  # fmt: skip
def test_the_replys_json_is_valid_or_not(reply, value, why):
    part = JsonSchema(schema=PERSON, deadline=10.0).part(make_prompt(), reply)
    assert (part.value, part.correct, part.error) == (value, None, None)
    assert why in part.why
    assert bool(part.why) == (value == 0.0)


def test_a_reason_can_be_written_whatever_the_keys_are():
    reward = JsonSchema(schema={"additionalProperties": {"type": "integer"}}, deadline=10.0)
    part = reward.part(make_prompt(), r'{"\ud800é": "x"}')
    assert part.value == 0.0
    assert b"\\ud800\xc3\xa9" in part.why.encode()


def test_json_may_stand_elsewhere():
    reward = JsonSchema(schema={"type": "integer"}, places=("tag:answer",), deadline=10.0)
    assert reward.part(make_prompt(), "<answer>3</answer>").value == 1.0
    assert reward.part(make_prompt(), "3").value == 0.0


def test_a_schema_from_a_file(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(PERSON))
    assert JsonSchema(schema=str(path), deadline=10.0).part(make_prompt(), '{"name": "Ada"}').value == 1.0
    path.write_text('{"type": "wrong"}')
    with pytest.raises(ConfigError, match=r"schema.json: the JSON schema is broken"):
        JsonSchema(schema=path)
    path.write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        JsonSchema(schema=path)
    with pytest.raises(ConfigError, match="cannot be read"):
        JsonSchema(schema=tmp_path / "none.json")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "text"}, "'text' is not valid"), ({"pattern": "("}, "'\\(' is not a 'regex'"), ({"minimum": "1"}, "not of type 'number'"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "'#/\\$defs/none' leads nowhere"), ({"$ref": "http://127.0.0.1:9/x.json"}, "leads nowhere"),
        ({"const": {1, 2}}, "no JSON"),
    ],
)  # fmt: skip
def test_a_broken_schema_is_found_at_once(schema, why):
    with pytest.raises(ConfigError, match=why):
        JsonSchema(schema=schema)


def test_a_reference_that_is_data_or_standard_is_no_problem():
    JsonSchema(schema={"enum": [{"$ref": "#/nowhere"}]})
    JsonSchema(schema={"$ref": "https://json-schema.org/draft/2020-12/schema"})


def test_a_schema_that_takes_for_ever_on_a_value_is_stopped():
    reward = JsonSchema(schema={"type": "string", "pattern": "^(a+)+$"}, deadline=0.5)
    assert reward.part(make_prompt(), '"aaa"').value == 1.0
    began = time.monotonic()
    part = reward.part(make_prompt(), json.dumps("a" * 60 + "b"))
    assert time.monotonic() - began < 5
    assert (part.value, part.why) == (0.0, "timeout: the schema took more than 0.5 s")


def test_a_schema_that_leads_to_itself_is_a_failure_and_no_verdict():
    part = JsonSchema(schema={"$ref": "#"}, deadline=10.0).part(make_prompt(), "1")
    assert part.value is None
    assert part.error
    assert "RecursionError" in part.error


@pytest.mark.parametrize("knobs", [{"places": ()}, {"places": ("middle",)}, {"deadline": 0.0}, {"workers": 0}])
def test_settings_without_sense_are_refused(knobs):
    with pytest.raises(ConfigError):
        JsonSchema(schema={}, **knobs)
