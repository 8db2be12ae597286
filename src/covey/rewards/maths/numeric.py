"""The number that an expression is, exactly where it is rational, else to many digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

from covey.rewards.maths.nodes import Name, Node, Number, UnreadableError

BITS = 1 << 20
"""Of the largest rational number that is computed, where nobody is kept waiting."""

DIGITS = 60
"""Decimal digits of other numbers, and as many more as the sizes in an expression lie apart."""

_MOST_DIGITS = 3000


class TooLargeError(UnreadableError):
    """A number has more digits than were allowed."""


def exact(node: Node, bits: int = BITS) -> Fraction | None:
    """The rational number that an expression is; None if it has variables, roots or the like.

    Raises UnreadableError for a division by zero, and TooLargeError for a number of more than ``bits``.
    """
    if isinstance(node, Number):
        return _limited(node.value, bits)
    if isinstance(node, Name):
        return None
    args = []
    for argument in node.args:
        value = exact(argument, bits)
        if value is None:
            return None
        args.append(value)
    if node.name == "pow":
        found = _power(args[0], args[1], bits)
    elif node.name in ("sqrt", "root"):
        found = _root_power(args[0], _degree(args), bits)
    elif node.name in ("factorial", "binom"):
        found = _counted(node.name, args, bits)
    else:
        found = _EXACT[node.name](*args) if node.name in _EXACT else None
    return None if found is None else _limited(found, bits)


def _limited(value: Fraction, bits: int) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > bits:
        raise TooLargeError("a number too large")
    return value


def _power(base: Fraction, exponent: Fraction, bits: int) -> Fraction | None:
    if exponent.denominator != 1:
        return _root_power(base, exponent, bits)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base in (0, 1, -1):
        if base == 0 and exponent <= 0:
            raise UnreadableError("zero to a power that is not positive")
        return base if exponent % 2 or base == 0 else abs(base)
    if abs(exponent) * size > bits:
        raise TooLargeError("a number too large")
    return base ** int(exponent)


def _degree(args: list[Fraction]) -> Fraction:
    """The exponent of a root: one half, or one over its degree."""
    degree = args[1] if len(args) > 1 else Fraction(2)
    if degree.denominator != 1 or degree < 1:
        raise UnreadableError(f"the root of degree {degree}")
    return 1 / degree


def _root_power(base: Fraction, exponent: Fraction, bits: int) -> Fraction | None:
    """A power with a root that comes out even, such as ``(1/4)^(1/2)``."""
    degree = exponent.denominator
    if base < 0 or degree > 64:
        return None
    above, below = (_integer_root(part, degree) for part in (base.numerator, base.denominator))
    return (
        None if above is None or below is None else _power(Fraction(above, below), Fraction(exponent.numerator), bits)
    )


def _integer_root(value: int, degree: int) -> int | None:
    if degree == 2:
        root = math.isqrt(value)
    else:
        low, high = 0, 1 << (value.bit_length() // degree + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
        root = low
    return root if root**degree == value else None


def _quotient(above: Fraction, below: Fraction) -> Fraction:
    if below == 0:
        raise UnreadableError("a division by zero")
    return above / below


def _counted(name: str, args: list[Fraction], bits: int) -> Fraction:
    """A factorial or a binomial coefficient."""
    n, k = args[0], args[-1]
    if n.denominator != 1 or k.denominator != 1 or not 0 <= k <= n:
        raise UnreadableError(f"{name} of {', '.join(str(arg)[:20] for arg in args)}")
    if n * n.numerator.bit_length() > bits:
        raise TooLargeError("a number too large")
    return Fraction(math.factorial(int(n)) if name == "factorial" else math.comb(int(n), int(k)))


def _integers(combine: Callable[..., int]) -> Callable[..., Fraction]:
    def combined(*values: Fraction) -> Fraction:
        if any(value.denominator != 1 for value in values):
            raise UnreadableError("a common divisor of fractions")
        return Fraction(combine(*(int(value) for value in values)))

    return combined


_EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "neg": lambda a: -a,
    "abs": abs,
    "floor": lambda a: Fraction(math.floor(a)),
    "ceil": lambda a: Fraction(math.ceil(a)),
    "max": max,
    "min": min,
    "gcd": _integers(math.gcd),
    "lcm": _integers(math.lcm),
}


class Evaluation:
    """An expression's value at given values of its variables, and how far the sizes of its parts lie apart."""

    def __init__(self, variables: Mapping[str, Any], digits: int = DIGITS) -> None:
        import mpmath

        self.mp = mpmath.mp.clone() if hasattr(mpmath.mp, "clone") else mpmath.MPContext()
        self.mp.dps = digits
        self.variables = variables
        self.low, self.high = 0.0, 0.0  # decimal orders of magnitude

    def __call__(self, node: Node) -> Any:
        value = self._value(node)
        size = abs(value)
        if size and self.mp.isfinite(size):
            order = float(self.mp.log10(size))
            self.low, self.high = min(self.low, order), max(self.high, order)
        return value

    def _value(self, node: Node) -> Any:
        mp = self.mp
        if isinstance(node, Number):
            return mp.mpf(node.value.numerator) / node.value.denominator
        if isinstance(node, Name):
            constants = {"pi": mp.pi, "e": mp.e, "i": mp.mpc(0, 1), "oo": mp.inf}
            return +constants[node.name] if node.name in constants else mp.mpf(self.variables[node.name])
        args = [self(argument) for argument in node.args]
        if node.name == "pow":
            return self._power(*args)
        return self._functions()[node.name](*args)

    def _power(self, base: Any, exponent: Any) -> Any:
        if base != 0 and abs(exponent) * (abs(self.mp.log(abs(base))) + 1) > 1e6:
            raise UnreadableError("a number too large")
        return base**exponent

    def _functions(self) -> dict[str, Callable[..., Any]]:
        mp = self.mp
        plain = (
            "sin",
            "cos",
            "tan",
            "sec",
            "csc",
            "cot",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "sqrt",
            "floor",
            "ceil",
        )
        return {
            **{name: getattr(mp, name) for name in plain},
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "div": lambda a, b: a / b,
            "neg": lambda a: -a,
            "abs": abs,
            "log": lambda a, base=None: mp.log(a) if base is None else mp.log(a) / mp.log(base),
            "exp": lambda a: self._power(+mp.e, a),
            "root": lambda a, n: self._power(a, 1 / n),
            "factorial": self._small_factorial,
            "binom": lambda n, k: mp.binomial(n, k),
            "max": lambda *a: reduce(lambda x, y: x if x >= y else y, a),
            "min": lambda *a: reduce(lambda x, y: x if x <= y else y, a),
        }  # fmt: skip

    def _small_factorial(self, value: Any) -> Any:
        if abs(value) > 20_000:
            raise UnreadableError("the factorial of a number too large")
        return self.mp.factorial(value)


def digits_needed(evaluation: Evaluation) -> int:
    """So many that a part as small as the smallest counts beside the largest."""
    return min(_MOST_DIGITS, DIGITS + math.ceil(evaluation.high - evaluation.low))
