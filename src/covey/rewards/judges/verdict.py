"""Reading a model's verdict: the last JSON object of its answer, and nothing that merely resembles one."""

from __future__ import annotations

import json
from typing import Any

from covey.rewards.judges.chat import UnreadableError

LONGEST = 20_000
"""Characters of an answer; looking for an object takes time that grows with their square at worst."""


def last_object(answer: str) -> dict[str, Any]:
    """The last JSON object that is not inside another. Raises UnreadableError if there is none.

    An object that names a key twice is none: readers disagree about which one counts.
    """
    if len(answer) > LONGEST:
        raise UnreadableError(f"an answer of {len(answer)} characters")
    decoder = json.JSONDecoder(object_pairs_hook=_without_doubles)
    found: dict[str, Any] | None = None
    place = answer.find("{")
    while place >= 0:
        try:
            found, end = decoder.raw_decode(answer, place)
        except (ValueError, RecursionError):
            end = place + 1
        place = answer.find("{", end)
    if found is None:
        raise UnreadableError(f"no JSON object in {answer[-80:]!r}")
    return found


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def read_score(answer: str, lowest: float, highest: float) -> tuple[float, str]:
    """``score`` and ``reason`` of the verdict. Raises UnreadableError unless the score is a number within the scale."""
    verdict = last_object(answer)
    score = verdict.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not lowest <= score <= highest:
        raise UnreadableError(f"a score of {str(score)[:40]!r}, expected a number from {lowest:g} to {highest:g}")
    return float(score), _reason(verdict)


def read_winner(answer: str) -> tuple[float, str]:
    """What the first of two gets, 1, 0.5 or 0, and ``reason``. Raises UnreadableError for an unknown ``winner``."""
    verdict = last_object(answer)
    winner = verdict.get("winner")
    shares = {"first": 1.0, "tie": 0.5, "second": 0.0}
    if not isinstance(winner, str) or winner not in shares:
        raise UnreadableError(f"a winner {str(winner)[:40]!r}, expected 'first', 'second' or 'tie'")
    return shares[winner], _reason(verdict)


def _reason(verdict: dict[str, Any]) -> str:
    reason = verdict.get("reason", "")
    return reason[:200] if isinstance(reason, str) else ""
