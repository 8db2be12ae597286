"""The tests of a prompt, in the shapes that data sets have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from covey.errors import RewardError


@dataclass(frozen=True, slots=True)
class Written:
    """A program reads ``stdin`` and must write ``expected``."""

    stdin: str
    expected: str


@dataclass(frozen=True, slots=True)
class Called:
    """A function, or a method as ``Class.method``, must return ``expected``."""

    function: str
    args: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True, slots=True)
class Asserted:
    """Statements that hold if they raise nothing; ``setup`` is run before all of them."""

    setup: str
    tests: tuple[str, ...]
    imports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """All tests of a prompt; exactly one kind is not empty."""

    written: tuple[Written, ...] = ()
    called: tuple[Called, ...] = ()
    asserted: Asserted | None = None
    before: str = field(default="")  # the beginning of the program, where the data gives it, as HumanEval does

    def __len__(self) -> int:
        return len(self.written) + len(self.called) + (len(self.asserted.tests) if self.asserted else 0)


def cases_of(columns: Mapping[str, Any]) -> Cases | None:
    """The tests in a row's columns, or None if it has none. Raises RewardError for ones that do not fit together.

    ``tests``: a list of ``{input, output}`` or ``{function, args, expected}``, of assert statements, or an object
    ``{inputs, outputs, fn_name}`` (APPS, TACO), all of it as JSON text too. ``test_list`` with ``test_setup_code``
    (MBPP). ``test`` with ``entry_point`` and perhaps ``prompt_code`` (HumanEval).
    """
    if "test_list" in columns:
        setup = str(columns.get("test_setup_code") or "")
        return _not_empty(Cases(asserted=Asserted(setup, tuple(columns["test_list"]))))
    if "test" in columns and "entry_point" in columns:
        tests = Asserted(str(columns["test"]), (f"check({columns['entry_point']})",))
        return Cases(asserted=tests, before=str(columns.get("prompt_code") or ""))
    tests = columns.get("tests")
    if isinstance(tests, str):
        try:
            tests = json.loads(tests)
        except ValueError:
            tests = [tests]
    if isinstance(tests, Mapping):
        return _not_empty(_apps(tests))
    return _not_empty(_listed(tests)) if tests else None


def _not_empty(cases: Cases) -> Cases | None:
    return cases if len(cases) else None


def _apps(tests: Mapping[str, Any]) -> Cases:
    inputs, outputs = tests.get("inputs", []), tests.get("outputs", [])
    if len(inputs) != len(outputs):
        raise RewardError(f"the tests have {len(inputs)} inputs and {len(outputs)} outputs; one output each expected")
    function = tests.get("fn_name")
    if function is None:
        pairs = zip(inputs, outputs, strict=True)
        return Cases(written=tuple(Written(_text(given), _text(expected)) for given, expected in pairs))
    return Cases(
        called=tuple(
            Called(str(function), tuple(args), expected) for args, expected in zip(inputs, outputs, strict=True)
        )
    )


def _text(value: Any) -> str:
    return "\n".join(str(line) for line in value) if isinstance(value, list) else str(value)


def _listed(tests: Any) -> Cases:
    if not isinstance(tests, list | tuple):
        raise RewardError(f"tests are a {type(tests).__name__}, expected a list")
    if all(isinstance(test, str) for test in tests):
        return Cases(asserted=Asserted("", tuple(tests)))
    try:
        if all("function" in test for test in tests):
            return Cases(called=tuple(Called(t["function"], tuple(t["args"]), t["expected"]) for t in tests))
        return Cases(written=tuple(Written(_text(t["input"]), _text(t["output"])) for t in tests))
    except (KeyError, TypeError) as error:
        raise RewardError(
            f"a test lacks {error}; expected input and output, or function, args and expected, for all of them"
        ) from error
