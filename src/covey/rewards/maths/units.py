"""Units of measurement that answers carry: which are the same, and how many of one make another."""

from __future__ import annotations

from fractions import Fraction

_SIZES: dict[str, dict[str, str]] = {
    "length": {
        "m meter meters metre metres": "1", "cm centimeter centimeters": "1/100", "mm millimeter millimeters": "1/1000",
        "km kilometer kilometers": "1000", "inch inches": "0.0254", "ft foot feet": "0.3048",
        "yard yards yd": "0.9144", "mile miles mi": "1609.344",
    },
    "time": {
        "s sec second seconds": "1", "minute minutes min": "60", "h hr hrs hour hours": "3600", "day days": "86400",
        "week weeks": "604800", "ms millisecond milliseconds": "1/1000",
    },
    "months": {"month months": "1", "year years yr yrs": "12"},
    "mass": {
        "g gram grams": "1", "kg kilogram kilograms": "1000", "mg milligram milligrams": "1/1000",
        "lb lbs pound pounds": "453.59237", "oz ounce ounces": "28.349523125",
    },
    "volume": {"L l liter liters litre litres": "1", "mL ml milliliter milliliters": "1/1000"},
    "money": {"dollar dollars usd": "1", "cent cents": "1/100"},
    "angle": {"degree degrees deg": "1"},
    "turn": {"radian radians rad": "1"},  # degrees by pi: see covey.rewards.maths.compare
    "share": {"percent": "1"},
}  # fmt: skip
_TABLE = {
    name: (spellings.split()[0], dimension, Fraction(size))
    for dimension, units in _SIZES.items()
    for spellings, size in units.items()
    for name in spellings.split()
}
"""By each spelling: the first one, what it measures, and its size."""

ONE_LETTER = frozenset("mgshlLVWJNA")
"""Letters that are units where they stand upright, or behind a number and a blank."""

WORDS = frozenset({"square", "cubic", "sq", "per", "cu"})


def canonical(unit: str) -> str:
    """One spelling: the table's where it knows the word, else without case and in the singular."""
    return " ".join(_one(word) for word in unit.replace("^", " ^").split())


def _one(word: str) -> str:
    known = _TABLE.get(word) or _TABLE.get(word.lower())
    if known is not None:
        return known[0]
    plain = word.lower()
    return plain[:-1] if len(plain) > 3 and plain.endswith("s") and not plain.endswith("ss") else plain


def ratio(of: str, to: str) -> Fraction | None:
    """How many of unit ``to`` one of unit ``of`` is; None where they do not measure the same."""
    of, to = canonical(of), canonical(to)
    if of == to:
        return Fraction(1)
    if of in _TABLE and to in _TABLE and _TABLE[of][1] == _TABLE[to][1]:
        return _TABLE[of][2] / _TABLE[to][2]
    return None


def is_known(word: str) -> bool:
    """Whether the table has it, or it goes with a unit."""
    return word in _TABLE or word.lower() in _TABLE or word.lower() in WORDS
