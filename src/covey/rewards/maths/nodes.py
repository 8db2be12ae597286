"""What a written answer means: expressions, and the shapes that answers have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


class UnreadableError(ValueError):
    """A text that is no answer as a whole; a part of it is never taken for one."""


@dataclass(frozen=True, slots=True)
class Number:
    """A rational number exactly as written: 0.1 is one tenth."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or one of the constants ``pi``, ``e``, ``i`` and ``oo``."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operation or function of its arguments: ``add``, ``mul``, ``div``, ``pow``, ``neg``, ``sqrt``, ``sin`` ..."""

    name: str
    args: tuple[Node, ...]


Node = Number | Name | Call
CONSTANTS = frozenset({"pi", "e", "i", "oo"})


@dataclass(frozen=True, slots=True)
class Value:
    """An expression and the unit behind it, empty if there is none."""

    node: Node
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """``sides[0] signs[0] sides[1] signs[1] ...`` with signs of ``= != < <= > >= in``."""

    sides: tuple[Answer, ...]
    signs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """Several answers: a ``list`` without brackets, a ``set``, or a ``tuple``, whose brackets may mean an interval."""

    kind: str
    items: tuple[Answer, ...]
    brackets: str = ""  # of a tuple: "()", "[]", "[)" or "(]"


@dataclass(frozen=True, slots=True)
class Union:
    """Of intervals and sets."""

    parts: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of expressions, all of one length."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Word:
    """An answer that is one word, or text marked as such, in lower case."""

    text: str


Answer = Value | Relation | Many | Union | Matrix | Word


def names(node: Node) -> Iterator[str]:
    """The variables of an expression."""
    if isinstance(node, Name):
        if node.name not in CONSTANTS:
            yield node.name
    elif isinstance(node, Call):
        for argument in node.args:
            yield from names(argument)
