"""JSON as the standard has it (RFC 8259), and nothing that readers disagree about."""

from __future__ import annotations

import json
import math
import re
from typing import Any

DEEPEST = 64
"""Arrays and objects inside each other."""
LONGEST_NUMBER = 1000
"""Characters; reading an integer takes time that grows with their square."""

_BRACKET_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def parse(text: str) -> Any:
    """The value of the whole text. Raises ValueError with what is wrong, in time that grows with its length.

    Refused beside what is no JSON: NaN and infinities, floats that overflow to them, a key twice in one object, more
    than ``DEEPEST`` levels and numbers of more than ``LONGEST_NUMBER`` characters.
    """
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} levels deep")
    return json.loads(text, parse_constant=_constant, parse_float=_float, parse_int=_integer, object_pairs_hook=_object)


def canonical(value: Any) -> str:
    """The same text for the same JSON value, whatever the order of keys; 1.0 is 1, but true is not."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        seen = set[str]()
        twice = next(key for key in keys if key in seen or seen.add(key))
        raise ValueError(f"key {twice[:40]!r} stands twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _float(text: str) -> float:
    value = float(_short(text))
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _integer(text: str) -> int:
    return int(_short(text))


def _short(text: str) -> str:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} characters")
    return text
