"""Finding the answer inside a response."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from covey.errors import ConfigError

_PHRASE = re.compile(r"\banswer(?:\s+is|\s*:|\s*=)\s*:?\s*", re.IGNORECASE)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_SENTENCE_END = re.compile(r"\.(?:\s|$)|\n")


def last_element(reply: str, tag: str) -> str | None:
    """The text of the last closed ``<tag>...</tag>`` without outer blanks, or None when there is none."""
    before_close = reply.rpartition(f"</{tag}>")[0]
    start = before_close.rfind(f"<{tag}>")
    return None if start < 0 else before_close[start + len(tag) + 2 :].strip()


def last_boxed(reply: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` whose braces are closed, or None; ``\boxed 5`` and ``\fbox`` too."""
    for start in reversed([match.end() for match in re.finditer(r"\\(?:boxed|fbox)", reply)]):
        if reply[start : start + 1] == " " and (word := re.match(r" +(\w+)", reply[start:])):
            return word[1]
        inner = _braced(reply[start:].lstrip())
        if inner is not None:
            return inner
    return None


def _braced(text: str) -> str | None:
    depth = 0
    for place, sign in enumerate(text):
        if not depth and sign != "{":
            return None
        escaped = place > 0 and text[place - 1] == "\\"
        depth += (sign == "{") - (sign == "}") if not escaped else 0
        if not depth:
            return text[1:place].strip()
    return None


def after_hashes(reply: str) -> str | None:
    """What follows the last ``####`` on its line, as in GSM8K."""
    _, found, rest = reply.rpartition("####")
    return rest.partition("\n")[0].strip() if found else None


def after_phrase(reply: str) -> str | None:
    """What follows the last "answer is", up to the end of the sentence."""
    matches = list(_PHRASE.finditer(reply))
    return _SENTENCE_END.split(reply[matches[-1].end() :], maxsplit=1)[0].strip(" *") if matches else None


def last_formula(reply: str) -> str | None:
    """The last formula between dollar signs or the like."""
    found = _FORMULA.findall(reply)
    return next(part for part in found[-1] if part).strip() if found else None


PLACES: dict[str, Callable[[str], str | None]] = {
    "boxed": last_boxed,
    "hashes": after_hashes,
    "phrase": after_phrase,
    "formula": last_formula,
    "whole": lambda reply: reply.strip() or None,
}
"""Where an answer may stand, by name; ``tag:NAME`` is an element of that name."""


def final_answer(reply: str, places: Sequence[str]) -> str | None:
    """The last answer at the first of ``places`` that the reply has; a later place is not looked at then."""
    for place in places:
        kind, _, tag = place.partition(":")
        found = last_element(reply, tag) if kind == "tag" else PLACES[place](reply)
        if found is not None:
            return found
    return None


def check_places(places: Sequence[str]) -> None:
    """Raises ConfigError for a place that is not known."""
    for place in places:
        if place not in PLACES and not (place.startswith("tag:") and len(place) > 4):
            raise ConfigError(f"{place!r} is no place of an answer. Allowed: {', '.join(PLACES)} and tag:NAME.")
