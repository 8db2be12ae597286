"""Shapes of answers that say the same: an equation for a name and its value, a relation and an interval."""

from __future__ import annotations

from covey.rewards.maths.nodes import CONSTANTS, Answer, Call, Many, Name, Relation, Union, Value, names

FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
"""Each sign read from right to left."""


def assignment(answer: Answer) -> tuple[str, Answer] | None:
    """Name and value, if it says that a name, or a function of one, is equal to something else."""
    if not isinstance(answer, Relation) or answer.signs not in (("=",), ("in",)):
        return None
    for side, other in (answer.sides, answer.sides[::-1]):
        name = _lone_name(side)
        if name is None or (answer.signs == ("in",) and side is not answer.sides[0]):
            continue
        if not (isinstance(other, Value) and name in set(names(other.node))):
            return name, other
    return None


def _lone_name(side: Answer) -> str | None:
    if not isinstance(side, Value) or side.unit:
        return None
    node = side.node
    if isinstance(node, Name) and node.name not in CONSTANTS:
        return node.name
    if isinstance(node, Call) and node.name == "mul":  # f(x) reads as f times x
        match node.args:
            case (Name(function), Name(_)) if function in ("f", "g", "h", "P", "p", "y"):
                return function
    return None


def assigned(answer: Answer) -> Answer | None:
    pair = assignment(answer)
    return pair[1] if pair else None


def in_order_of_names(answer: Many) -> tuple[Answer, ...] | None:
    pairs = [assignment(item) for item in answer.items]
    found = [pair for pair in pairs if pair]
    if len(found) < len(pairs) or len({name for name, _ in found}) < len(found):
        return None
    return tuple(value for _, value in sorted(found, key=lambda pair: pair[0]))


def ranges_of(answer: Answer) -> list[Many] | None:
    """The intervals that a relation of one name, an interval or a union of them is."""
    if isinstance(answer, Many) and answer.kind == "tuple" and len(answer.items) == 2:
        return [answer]
    if isinstance(answer, Union):
        found = [ranges_of(part) for part in answer.parts]
        return None if any(part is None for part in found) else [one for part in found for one in part or ()]
    if isinstance(answer, Relation):
        return _of_relation(answer)
    return None


def _of_relation(relation: Relation) -> list[Many] | None:
    if relation.signs == ("in",):
        return ranges_of(relation.sides[1]) if _lone_name(relation.sides[0]) else None
    if len(relation.sides) == 3 and _lone_name(relation.sides[1]):
        (low, _, high), (first, second) = relation.sides, relation.signs
        if {first, second} <= {">", ">="}:
            low, high, first, second = high, low, FLIPPED[second], FLIPPED[first]
        return [_interval(low, high, first, second)] if {first, second} <= {"<", "<="} else None
    if len(relation.sides) != 2 or relation.signs[0] not in ("<", "<=", ">", ">=", "!="):
        return None
    (left, right), (sign,) = relation.sides, relation.signs
    if not (_lone_name(left) or _is_size(left)):
        left, right, sign = right, left, FLIPPED[sign]
    if not (_lone_name(left) or _is_size(left)) or not isinstance(right, Value) or set(names(right.node)):
        return None
    least, most = Value(Call("neg", (Name("oo"),))), Value(Name("oo"))
    if _is_size(left):
        minus = Value(Call("neg", (right.node,)))
        if sign in ("<", "<="):
            return [_interval(minus, right, sign, sign)]
        sign = {">": "<", ">=": "<="}.get(sign, "")
        return [_interval(least, minus, "<", sign), _interval(right, most, sign, "<")] if sign else None
    if sign == "!=":
        return [_interval(least, right, "<", "<"), _interval(right, most, "<", "<")]
    return [_interval(least, right, "<", sign) if sign in ("<", "<=") else _interval(right, most, FLIPPED[sign], "<")]


def _is_size(side: Answer) -> bool:
    """Whether it is ``|x|``."""
    node = side.node if isinstance(side, Value) else None
    return isinstance(node, Call) and node.name == "abs" and isinstance(node.args[0], Name)


def _interval(low: Answer, high: Answer, first: str, second: str) -> Many:
    return Many("tuple", (low, high), ("[" if first == "<=" else "(") + ("]" if second == "<=" else ")"))
