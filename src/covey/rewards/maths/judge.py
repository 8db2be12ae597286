"""Verdicts on written answers: at once where numbers are rational, in an interpreter with a deadline otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from covey.rewards.extract import final_answer
from covey.rewards.interpreters import CrashError, Interpreters
from covey.rewards.maths.answers import read
from covey.rewards.maths.compare import Comparison, NotRationalError, Options, check_values
from covey.rewards.maths.nodes import UnreadableError
from covey.rewards.maths.numeric import TooLargeError

Kind = Literal["correct", "wrong", "gold_unparsed", "answer_unparsed", "timeout", "crash"]
QUICK_BITS = 4096
"""Of rational numbers that are compared on the spot; microseconds each."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of it, in a word and in a sentence."""

    kind: Kind
    why: str


@cache
def interpreters(size: int, deadline: float) -> Interpreters:
    """Shared by all rewards with the same limits."""
    return Interpreters("covey.rewards.maths.judge:slowly", size=size, deadline=deadline)


class Judge:
    """Compares the answer in a reply with the expected one. Verdicts are kept: siblings often say the same."""

    def __init__(
        self,
        options: Options | None = None,
        places: Sequence[str] = ("whole",),
        deadline: float = 3.0,
        workers: int = 2,
    ) -> None:
        self.options, self.places = options or Options(), tuple(places)
        self.deadline, self.workers = deadline, workers
        self._kept = lru_cache(maxsize=10_000)(self._compared)

    def __call__(self, gold: str, reply: str) -> Verdict:
        """Never raises and never takes longer than the deadline, waiting for a free interpreter aside."""
        if problem := self.problem(gold):
            return Verdict("gold_unparsed", problem)
        found = final_answer(reply, self.places)
        if found is None:
            return Verdict("answer_unparsed", "no answer found")
        return self._kept(gold, found)

    def problem(self, gold: str) -> str:
        """Why nothing can be compared with this expected answer; empty if it can."""
        return _problem(gold, self.workers, self.deadline)

    def _compared(self, gold: str, found: str) -> Verdict:
        try:
            answer = read(found)
        except (UnreadableError, RecursionError) as error:
            return Verdict("answer_unparsed", f"{found[:40]!r}: {error}")
        try:
            same = Comparison(self.options, QUICK_BITS, rational=True)(read(gold), answer)
        except UnreadableError as error:
            if not isinstance(error, TooLargeError):
                return Verdict("answer_unparsed", f"{found[:40]!r}: {error}")
        except NotRationalError:
            pass
        else:
            return Verdict("correct" if same else "wrong", f"{found[:40]} {'=' if same else '≠'} {gold[:40]}")
        return self._asked({"gold": gold, "found": found, "options": asdict(self.options)}, found)

    def _asked(self, question: dict[str, Any], found: str) -> Verdict:
        try:
            kind, why = interpreters(self.workers, self.deadline).ask(question)
        except TimeoutError:
            return Verdict("timeout", f"{found[:40]!r} took more than {self.deadline:g} s")
        except CrashError as error:
            return Verdict("crash", f"{found[:40]!r}: {error}")
        return Verdict(kind, why)


@lru_cache(maxsize=100_000)
def _problem(gold: str, workers: int, deadline: float) -> str:
    try:
        if check_values(read(gold), QUICK_BITS, rational=True):
            return ""
    except (TooLargeError, NotRationalError):
        pass
    except (UnreadableError, RecursionError) as error:
        return f"{gold[:40]!r} cannot be read: {error}"
    try:
        return str(interpreters(workers, deadline).ask({"gold": gold})[1])
    except (TimeoutError, CrashError) as error:
        return f"{gold[:40]!r} could not be computed: {error or 'it takes too long'}"


def slowly(question: dict[str, Any]) -> tuple[Kind, str]:
    """What an interpreter does with a question: everything that may take long."""
    gold = question["gold"]
    try:
        expected = read(gold)
        check_values(expected)
    except UnreadableError as error:
        return "gold_unparsed", f"{gold[:40]!r} cannot be read: {error}"
    if "found" not in question:
        return "correct", ""
    found = question["found"]
    try:
        same = Comparison(Options(**question["options"]))(expected, read(found))
    except UnreadableError as error:
        return "answer_unparsed", f"{found[:40]!r}: {error}"
    return "correct" if same else "wrong", f"{found[:40]} {'=' if same else '≠'} {gold[:40]}"
