"""Whether two answers say the same. The order of the two makes no difference except where an option says so."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from covey.rewards.maths.nodes import (
    Answer,
    Call,
    Many,
    Matrix,
    Name,
    Node,
    Number,
    Relation,
    Union,
    UnreadableError,
    Value,
    Word,
    names,
)
from covey.rewards.maths.numeric import BITS, DIGITS, Evaluation, digits_needed, exact
from covey.rewards.maths.shapes import FLIPPED, assigned, assignment, in_order_of_names, ranges_of
from covey.rewards.maths.units import canonical, ratio

_POINTS = (1, 2, 3)  # seeds of the values at which formulas are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What counts as the same.

    ``units="ignore"``: a unit that only one side has is no difference; ``"require"``: it is. Different units always
    are. ``percent="loose"``: an expected ``10%`` is also met by ``10``, besides ``0.1``. ``order_matters`` is of lists
    without brackets. ``rel_tol`` lets numbers differ by this share of the expected one; 0 is exact.
    """

    units: Literal["ignore", "require"] = "ignore"
    percent: Literal["loose", "strict"] = "loose"
    order_matters: bool = False
    rel_tol: float = 0.0


class NotRationalError(Exception):
    """Roots, constants or variables take part."""


class Comparison:
    """Of an expected answer and one given, under options; no number of more than ``bits`` is computed.

    ``rational``: only what is exactly rational is compared, else NotRationalError.
    """

    def __init__(self, options: Options | None = None, bits: int = BITS, rational: bool = False) -> None:
        self.options = options or Options()
        self.bits = bits
        self.rational = rational

    def __call__(self, gold: Answer, given: Answer) -> bool:
        """Whether ``given`` says what ``gold`` says."""
        gold, given = _plain(gold), _plain(given)
        if gold == given:  # whatever it is, x = x too: what is written alike says the same
            return True
        if isinstance(gold, Value) and isinstance(given, Value):
            return self.values(gold, given)
        if isinstance(gold, Word) and isinstance(given, Word):
            return gold.text == given.text
        if isinstance(gold, Matrix) and isinstance(given, Matrix):
            return self.matrices(gold, given)
        one, other = ranges_of(gold), ranges_of(given)
        if one is not None and other is not None and not (isinstance(gold, Many) and isinstance(given, Many)):
            return self.bags(one, other)
        if isinstance(gold, Many) and isinstance(given, Many):
            return self.collections(gold, given)
        if isinstance(gold, Relation) and isinstance(given, Relation):
            return self.relations(gold, given)
        return self.alone(gold, given)

    def alone(self, gold: Answer, given: Answer) -> bool:
        """An equation for a name beside what it is equal to; one item beside its set."""
        for one, other, swapped in ((gold, given, False), (given, gold, True)):
            inner = assigned(one)
            if inner is None and isinstance(one, Many) and one.kind == "set" and len(one.items) == 1:
                inner = one.items[0]
            if inner is not None and not (isinstance(other, Relation) and assigned(other) is None):
                return self(other, inner) if swapped else self(inner, other)
        return False

    # Values

    def values(self, gold: Value, given: Value) -> bool:
        pairs: list[tuple[Node, Node]] = []
        factor = ratio(given.unit, gold.unit)
        if gold.unit and given.unit:
            if factor is None:
                pairs += self._angles(gold, given)
            else:
                pairs.append((gold.node, _times(given.node, factor)))
        elif gold.unit == given.unit:
            pairs.append((gold.node, given.node))
        else:
            pairs += self._one_unit(gold, given)
        return any(self.nodes(one, other) for one, other in pairs)

    def _one_unit(self, gold: Value, given: Value) -> list[tuple[Node, Node]]:
        """What may be compared where one side alone has a unit."""
        unit = canonical(gold.unit or given.unit)
        if unit == "percent":
            pairs = [(_absolute(gold), _absolute(given))]
            loose = self.options.percent == "loose" and bool(gold.unit)
            return [*pairs, (gold.node, given.node)] if loose else pairs
        pairs = [(_absolute(gold), _absolute(given))] if unit == "degree" else []
        return pairs if self.options.units == "require" else [*pairs, (gold.node, given.node)]

    @staticmethod
    def _angles(gold: Value, given: Value) -> list[tuple[Node, Node]]:
        units = {canonical(gold.unit), canonical(given.unit)}
        return [(_absolute(gold), _absolute(given))] if units == {"degree", "radian"} else []

    def nodes(self, gold: Node, given: Node) -> bool:
        """Whether two expressions are the same number, or the same formula at every value of its variables."""
        if gold == given:
            return True
        one, other = exact(gold, self.bits), exact(given, self.bits)
        if one is not None and other is not None:
            return abs(one - other) <= Fraction(self.options.rel_tol) * abs(one)
        if self.rational:
            raise NotRationalError
        return all(self._close(gold, given, seed) for seed in _POINTS[: 3 if _variables(gold, given) else 1])

    def _close(self, gold: Node, given: Node, seed: int) -> bool:
        point, digits = _point(_variables(gold, given), seed), DIGITS
        while True:
            evaluation = Evaluation(point, digits)
            one, other = _valued(evaluation, gold), _valued(evaluation, given)
            needed = digits_needed(evaluation)
            if needed <= digits:
                break
            digits = needed
        if one == other:
            return True
        if not (evaluation.mp.isfinite(one) and evaluation.mp.isfinite(other)):
            return False
        most = max(abs(one), abs(other))
        return abs(one - other) <= max(evaluation.mp.mpf(10) ** (20 - digits), self.options.rel_tol) * most

    def matrices(self, gold: Matrix, given: Matrix) -> bool:
        if [len(row) for row in gold.rows] != [len(row) for row in given.rows]:
            return False
        pairs = zip(gold.rows, given.rows, strict=True)
        return all(self.nodes(a, b) for one, other in pairs for a, b in zip(one, other, strict=True))

    # Several

    def collections(self, gold: Many, given: Many) -> bool:
        kinds = {gold.kind, given.kind}
        if kinds <= {"list", "set"}:
            in_order = self.options.order_matters and kinds == {"list"}
            once = "set" in kinds
            return self.sequences(gold.items, given.items) if in_order else self.bags(gold.items, given.items, once)
        if kinds == {"tuple"}:
            return gold.brackets == given.brackets and self.sequences(gold.items, given.items)
        listed = gold if gold.kind == "list" else given  # x = 1, y = 2 is the point (1, 2)
        values = in_order_of_names(listed) if listed.kind == "list" else None
        other = given if listed is gold else gold
        return values is not None and other.brackets == "()" and self.sequences(other.items, values)

    def sequences(self, gold: Sequence[Answer], given: Sequence[Answer]) -> bool:
        return len(gold) == len(given) and all(self(a, b) for a, b in zip(gold, given, strict=True))

    def bags(self, gold: Sequence[Answer], given: Sequence[Answer], once: bool = False) -> bool:
        """The same items in any order; ``once``: repeating one adds nothing."""
        if not once and len(gold) != len(given):
            return False
        left = list(given)
        for item in gold:
            match = next((i for i, other in enumerate(left) if self(item, other)), None)
            if match is None:
                if once and any(self(item, other) for other in given):
                    continue
                return False
            left.pop(match)
        return all(once and any(self(item, other) for item in gold) for other in left)

    # Relations

    def relations(self, gold: Relation, given: Relation) -> bool:
        """Equations and inequalities that say the same, whatever side and factor they are written with."""
        one, other = assignment(gold), assignment(given)
        if one and other:
            return one[0] == other[0] and self(one[1], other[1])
        if len(gold.sides) != len(given.sides):
            return False
        if len(gold.sides) > 2:
            turned = Relation(given.sides[::-1], tuple(FLIPPED.get(sign, sign) for sign in given.signs[::-1]))
            chains = (given, turned)
            return any(gold.signs == c.signs and self.sequences(gold.sides, c.sides) for c in chains)
        return self._two_sides(gold, given)

    def _two_sides(self, gold: Relation, given: Relation) -> bool:
        if self.rational:
            raise NotRationalError
        one, other = _difference(gold), _difference(given)
        if one is None or other is None:
            return False
        sign, given_sign = gold.signs[0], given.signs[0]
        if sign not in (given_sign, FLIPPED[given_sign]):
            return False
        factors = [_factor(one, other, seed) for seed in _POINTS]
        first = factors[0]
        if first is None or any(factor is None or abs(factor - first) > abs(first) * 1e-30 for factor in factors):
            return False
        if sign in ("=", "!="):
            return bool(first != 0)
        if getattr(first, "imag", 0) != 0:
            return False
        return bool(first > 0) if sign == given_sign else bool(first < 0)


def _valued(evaluation: Evaluation, node: Node) -> Any:
    try:
        return evaluation(node)
    except (ZeroDivisionError, ValueError, OverflowError, TypeError, KeyError) as error:
        raise UnreadableError(f"it has no value: {error}") from error


def _plain(answer: Answer) -> Answer:
    """One spelling: a list of one is its item, an interval written as a relation stays."""
    if isinstance(answer, Many) and answer.kind == "list" and len(answer.items) == 1:
        return _plain(answer.items[0])
    if isinstance(answer, Many) and answer.kind == "list":  # x = 1, 2 and x = 1 or x = 2
        items = [_plain(item) for item in answer.items]
        items = [inner for item in items for inner in (item.items if _is_list(item) else (item,))]
        assigned = [assignment(item) for item in items]
        named = {pair[0] for pair in assigned if pair}
        if len(named) == 1:
            items = [pair[1] if pair else item for item, pair in zip(items, assigned, strict=True)]
        return Many("list", tuple(items))
    if isinstance(answer, Relation) and (pair := assignment(answer)) and _is_list(pair[1]):
        return pair[1]
    if isinstance(answer, Union) and len(answer.parts) == 1:
        return _plain(answer.parts[0])
    return answer


def _is_list(answer: Answer) -> bool:
    return isinstance(answer, Many) and answer.kind == "list"


def _variables(*nodes: Node) -> list[str]:
    return sorted({name for node in nodes for name in names(node)})


def _point(variables: Sequence[str], seed: int) -> dict[str, float]:
    """Values that no two formulas are likely to agree at by accident: positive at first, then of both signs."""
    found = {}
    for name in variables:
        value = random.Random(f"{name}/{seed}").uniform(0.5, 2.5)
        found[name] = -value if seed == 3 else value
    return found


def _times(node: Node, factor: Fraction) -> Node:
    return node if factor == 1 else Call("mul", (node, Number(factor)))


def _absolute(value: Value) -> Node:
    """The number that a value with percent or degrees is."""
    unit = canonical(value.unit)
    if unit == "percent":
        return _times(value.node, Fraction(1, 100))
    if unit == "degree":
        return Call("div", (Call("mul", (value.node, Name("pi"))), Number(Fraction(180))))
    return value.node


def _difference(relation: Relation) -> Node | None:
    left, right = relation.sides
    if not isinstance(left, Value) or not isinstance(right, Value) or left.unit or right.unit:
        return None
    return Call("sub", (left.node, right.node))


def _factor(one: Node, other: Node, seed: int) -> Any:
    """``one`` over ``other`` at a point of their variables, None where that says nothing."""
    evaluation = Evaluation(_point(_variables(one, other), seed))
    try:
        above, below = _valued(evaluation, one), _valued(evaluation, other)
    except UnreadableError:
        return None
    if below == 0 or not evaluation.mp.isfinite(above) or not evaluation.mp.isfinite(below):
        return None
    return above / below


def expressions(answer: Answer) -> Iterator[Node]:
    """Everything in an answer that has a value."""
    if isinstance(answer, Value):
        yield answer.node
    elif isinstance(answer, Matrix):
        yield from (node for row in answer.rows for node in row)
    elif not isinstance(answer, Word):
        parts = (
            answer.sides
            if isinstance(answer, Relation)
            else answer.parts
            if isinstance(answer, Union)
            else answer.items
        )
        for part in parts:
            yield from expressions(part)


def check_values(answer: Answer, bits: int = BITS, rational: bool = False) -> bool:
    """True; raises UnreadableError where a number has no value, such as a division by zero.

    With ``rational`` NotRationalError where one is neither rational nor infinite, unless it is a lone name.
    """
    for node in expressions(answer):
        if isinstance(node, Name) or node in _INFINITE or exact(node, bits) is not None:
            continue
        if rational:
            raise NotRationalError
        if not _variables(node):
            _valued(Evaluation({}), node)
    return True


_INFINITE = (Name("oo"), Call("neg", (Name("oo"),)))
