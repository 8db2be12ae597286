"""The built-in task: products of two two-digit numbers, with written working. Splits share no line at all.

A problem and its working:

    13×17=?
    13×10=100+30=130        tens of the second factor: each digit of the first times ten times the digit
    13×7=70+21=91           its units
    130+91=221
    <answer>221</answer>

Numbers are 11 to 99 without multiples of ten. Each number belongs to one split. A train problem has two train numbers;
a test (dev) problem has a test (dev) number first and any number of the other splits second. The first factor
stands in both product lines, so these can never be shared. A sum line can: 12×24 and 24×12 both end in 240+48=288.
Such problems are left out of train and, against test, out of dev. What the splits do share are single-digit facts, the
skill itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from covey.types import Message, Prompt

SPLITS = ("train", "dev", "test")
NUMBERS = tuple(n for n in range(11, 100) if n % 10)
_TEST_NUMBERS, _DEV_NUMBERS = 8, 5


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """``a × b`` with its working."""

    a: int
    b: int

    @property
    def question(self) -> str:
        """What the prompt says."""
        return f"{self.a}×{self.b}=?"

    @property
    def lines(self) -> tuple[str, str, str]:
        """The lines of working: product with the tens, product with the units, their sum."""
        tens, units = self.b // 10 * 10, self.b % 10
        return (
            product_line(self.a, tens),
            product_line(self.a, units),
            f"{self.a * tens}+{self.a * units}={self.answer}",
        )

    @property
    def answer(self) -> str:
        return str(self.a * self.b)

    @property
    def working(self) -> str:
        """The careful response: all lines, then the answer in its tag."""
        return "\n".join((*self.lines, f"<answer>{self.answer}</answer>"))


def product_line(a: int, factor: int) -> str:
    """``13×7=70+21=91``: a two-digit number times a digit, or times ten times a digit."""
    high, low = a // 10 * 10 * factor, a % 10 * factor
    return f"{a}×{factor}={high}+{low}={high + low}"


@cache
def numbers(split: str) -> frozenset[int]:
    """The numbers of a split. 13 is a test number, so that 13×17 is never trained on."""
    shuffled = [n for n in NUMBERS if n != 13]
    random.Random(20).shuffle(shuffled)
    test, dev = _TEST_NUMBERS - 1, _TEST_NUMBERS - 1 + _DEV_NUMBERS
    return {
        "test": frozenset({13, *shuffled[:test]}),
        "dev": frozenset(shuffled[test:dev]),
        "train": frozenset(shuffled[dev:]),
    }[split]


@cache
def problems(split: str) -> tuple[Problem, ...]:
    """All problems of a split, in order. No line of one split's working occurs in another's. Raises KeyError."""
    if split == "train":
        first = second = numbers("train")
    else:
        other = "dev" if split == "test" else "test"
        first, second = numbers(split), frozenset(NUMBERS) - numbers(other)
    found = sorted(Problem(a, b) for a in first for b in second)
    taken = {line for held in _held_before(split) for problem in problems(held) for line in problem.lines}
    return tuple(problem for problem in found if taken.isdisjoint(problem.lines))


def _held_before(split: str) -> tuple[str, ...]:
    return {"test": (), "dev": ("test",), "train": ("test", "dev")}[split]


def prompts(split: str) -> list[Prompt]:
    """The problems of a split as prompts; ``columns`` hold both factors."""
    return [
        Prompt(
            uid=f"arithmetic-{split}-{problem.a}x{problem.b}",
            messages=(Message(role="user", content=problem.question),),
            answer=problem.answer,
            columns={"a": problem.a, "b": problem.b},
            task="arithmetic",
        )
        for problem in problems(split)
    ]
