"""How often a group says anything: the chance that not all of its rewards are equal, at any group size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb, prod

DIGITS = 9
"""Totals that agree to so many digits are equal."""

PRIOR = 0.5
"""Of every value, seen or not yet (Jeffreys), where a group is asked about sizes beyond its own."""


def chance_of_spread(values: Sequence[float], size: int, known: Sequence[float] = ()) -> float:
    """The chance that ``size`` responses to this prompt do not all have the same value, judged by those ``values``.

    Up to their own number: the share of subsets of that size with unequal values, which is without bias. Beyond: the
    chance once further responses are added to these, under a Dirichlet posterior over the values seen here and the
    ``known`` ones, which other prompts had: right and wrong exist even where all were wrong.
    """
    counts = Counter(round(value, DIGITS) for value in values)
    total = sum(counts.values())
    if size < 2 or total < 1:
        return 0.0
    if size <= total:
        return 1.0 - sum(comb(count, size) for count in counts.values()) / comb(total, size)
    if len(counts) > 1:
        return 1.0
    mass = total + PRIOR * len({*counts, *(round(value, DIGITS) for value in known)})
    return 1.0 - prod((total + PRIOR + more) / (mass + more) for more in range(size - total))
