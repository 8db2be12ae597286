"""Messages on a pipe, each behind its length, and values in JSON that keep their types. Standard library alone."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

LONGEST = 1 << 20
"""Bytes of a message."""


class NotPlainError(ValueError):
    """A value, or text for one, that is not of the plain types."""


def read_frame(handle: int) -> Any:
    """The next message; None at the end of the pipe. Raises ValueError for a bad one."""
    head = _exactly(handle, 4)
    if not head:
        return None
    (length,) = struct.unpack(">I", head)
    if length > 64 * LONGEST:
        raise ValueError("too long a message")
    return json.loads(_exactly(handle, length))


def _exactly(handle: int, length: int) -> bytes:
    found = b""
    while len(found) < length:
        block = os.read(handle, length - len(found))
        if not block:
            return b""
        found += block
    return found


def frame(message: Any) -> bytes:
    """A message as it goes into the pipe."""
    data = json.dumps(message, ensure_ascii=True, allow_nan=False).encode()
    return struct.pack(">I", len(data)) + data


def pack(value: Any) -> Any:
    """A value of plain types as JSON. Exactly those types: a subclass could claim to equal anything.

    Raises NotPlainError.
    """
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind in _PACKED:
        return {kind.__name__: _PACKED[kind](value)}
    module = kind.__module__.partition(".")[0]
    if module == "numpy" and hasattr(value, "tolist"):
        return pack(value.tolist())
    raise NotPlainError(f"a value of type {kind.__name__}")


def _items(value: Any) -> list[Any]:
    return [pack(item) for item in value]


_PACKED: dict[type, Callable[[Any], Any]] = {
    int: hex,  # of any size; JSON readers limit decimal digits
    float: float.hex,
    complex: lambda z: [z.real.hex(), z.imag.hex()],
    bytes: bytes.hex,
    bytearray: lambda b: bytes(b).hex(),
    list: _items,
    tuple: _items,
    set: _items,
    frozenset: _items,
    dict: lambda d: [[pack(k), pack(v)] for k, v in d.items()],
    Decimal: str,
    Fraction: lambda q: [hex(q.numerator), hex(q.denominator)],
    range: lambda r: [hex(r.start), hex(r.stop), hex(r.step)],
}


def unpack(data: Any) -> Any:
    """The value. Raises NotPlainError for anything else than what :func:`pack` makes."""
    if data is None or isinstance(data, bool | str):
        return data
    try:
        ((name, inner),) = data.items()
        return _UNPACKED[name](inner)
    except NotPlainError:
        raise
    except Exception as error:
        raise NotPlainError(f"bad text for a value: {error}") from error


_UNPACKED: dict[str, Callable[[Any], Any]] = {
    "int": lambda t: int(t, 16),
    "float": float.fromhex,
    "complex": lambda t: complex(float.fromhex(t[0]), float.fromhex(t[1])),
    "bytes": bytes.fromhex,
    "bytearray": lambda t: bytearray(bytes.fromhex(t)),
    "list": lambda t: [unpack(item) for item in t],
    "tuple": lambda t: tuple(unpack(item) for item in t),
    "set": lambda t: {unpack(item) for item in t},
    "frozenset": lambda t: frozenset(unpack(item) for item in t),
    "dict": lambda t: {unpack(k): unpack(v) for k, v in t},
    "Decimal": Decimal,
    "Fraction": lambda t: Fraction(int(t[0], 16), int(t[1], 16)),
    "range": lambda t: range(*(int(n, 16) for n in t)),
}
