"""JSON schemas: broken ones are found at once, and values are checked where a hostile one can be stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from covey.errors import ConfigError, MissingExtraError
from covey.rewards.interpreters import CrashError, Interpreters
from covey.rewards.strict_json import parse
from covey.types import Part

Check = tuple[str, Any]
"""A schema, as :func:`checked` returns it, and the value to check."""


def load_schema(source: dict[str, Any] | str | Path) -> str:
    """A schema, or a file that holds one, as JSON. Raises ConfigError for one that cannot be read or is broken."""
    if isinstance(source, dict):
        return checked(source)
    try:
        return checked(parse(Path(source).read_text(encoding="utf-8")))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"the JSON schema {source} cannot be read: {error}") from error


def checked(schema: Any) -> str:
    """The schema as JSON. Raises ConfigError for a broken one and MissingExtraError without the library."""
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the JSON schema is no JSON: {error}") from error
    if problem := _problem(text):
        raise ConfigError(f"the JSON schema is broken: {problem}")
    return text


@lru_cache(maxsize=4096)
def _problem(text: str) -> str:
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
    except ImportError as error:
        raise MissingExtraError("jsonschema", "schema", "Checking JSON schemas") from error
    from covey.rewards.schema_worker import unresolved

    schema: Any = json.loads(text)
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        return f"{error.json_path}: {error.message}"[:200]
    reference = unresolved(schema)
    return f"its reference {reference!r} leads nowhere" if reference else ""


def judge_values(checks: Sequence[Check], workers: int, deadline: float) -> Part:
    """1 if every value is valid under its schema, else 0 with the first problem, also past ``deadline`` seconds.

    None with an error where the interpreter died. Patterns in schemas and ``anyOf`` can take exponential time.
    """
    try:
        problem = interpreters(workers, deadline).ask({"checks": checks})
    except TimeoutError:
        return Part(value=0.0, why=f"timeout: the schema took more than {deadline:g} s")
    except CrashError as error:
        return Part(value=None, why=f"the schema could not be applied: {error}", error=f"schema: {error}")
    return Part(value=float(not problem), why=problem)


@cache
def interpreters(size: int, deadline: float) -> Interpreters:
    """Shared by all rewards with the same limits."""
    return Interpreters("covey.rewards.schema_worker:first_problem", size=size, deadline=deadline)
