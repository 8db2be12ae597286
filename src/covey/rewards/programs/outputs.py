"""Whether what a program wrote or returned is what was expected."""

from __future__ import annotations

import math
import re
from typing import Any

_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?", re.ASCII)


def same_text(expected: str, written: str, tolerance: float = 1e-6) -> bool:
    """Line by line, word by word; blanks at the ends of lines and empty lines at the end do not count.

    Where the expected word is a number with a decimal point, ``tolerance`` is allowed, absolute or relative.
    """
    ours, theirs = _lines(expected), _lines(written)
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(same_word, a, b, [tolerance] * len(a))) for a, b in zip(ours, theirs, strict=True)
    )


def _lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.rstrip().split("\n")]


def same_word(expected: str, written: str, tolerance: float) -> bool:
    """Equal, or close if a decimal number was expected."""
    if expected == written:
        return True
    if len(written) > 400 or not written.isascii() or not _FLOAT.fullmatch(expected):
        return False
    try:
        return close(float(expected), float(written), tolerance)
    except ValueError:
        return False


def close(expected: float, value: float, tolerance: float) -> bool:
    """Within ``tolerance``, absolute or relative; infinities equal themselves, and NaN was never expected."""
    return expected == value or (math.isfinite(value) and abs(expected - value) <= tolerance * max(1.0, abs(expected)))


def same_value(expected: Any, value: Any, tolerance: float = 1e-6) -> bool:
    """Equal in type and value; an expected list is also met by a tuple, and a float by a whole number, as JSON has it.

    ``tolerance`` is for expected floats, absolute or relative.
    """
    if isinstance(expected, float) and type(value) in (int, float):
        return close(expected, float(value), tolerance) if abs(value) < 1e300 else expected == value
    if isinstance(expected, list | tuple) and isinstance(value, list | tuple):
        same_kind = isinstance(expected, list) or isinstance(value, tuple)
        pairs = zip(expected, value, strict=False)
        return same_kind and len(expected) == len(value) and all(same_value(a, b, tolerance) for a, b in pairs)
    if isinstance(expected, dict) and isinstance(value, dict):
        return expected.keys() == value.keys() and all(same_value(e, value[k], tolerance) for k, e in expected.items())
    return type(expected) is type(value) and bool(expected == value)
