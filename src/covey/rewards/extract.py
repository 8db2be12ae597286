"""Finding the answer inside a response."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from covey.errors import ConfigError

_PHRASE = re.compile(r"\banswer(?:\s+is|\s*:|\s*=)\s*:?\s*", re.IGNORECASE)
_OPENING = re.compile(r"\$\$|\$|\\\(|\\\[")
_CLOSED_BY = {"$$": "$$", "$": "$", r"\(": r"\)", r"\[": r"\]"}
_BOX = re.compile(r"\\(?:boxed|fbox)")
_BOX_WORD = re.compile(r" +(\w+)")
_BOX_BRACE = re.compile(r"\s*+\{")
_BRACE = re.compile(r"(?<!\\)[{}]")
_SENTENCE_END = re.compile(r"\.(?:\s|$)|\n")


def last_element(reply: str, tag: str) -> str | None:
    """The text of the last closed ``<tag>...</tag>`` without outer blanks, or None when there is none."""
    before_close = reply.rpartition(f"</{tag}>")[0]
    start = before_close.rfind(f"<{tag}>")
    return None if start < 0 else before_close[start + len(tag) + 2 :].strip()


def last_boxed(reply: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` whose braces are closed, or None; ``\boxed 5`` and ``\fbox`` too."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACE.finditer(reply):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            ends[opened.pop()] = brace.start()
    for box in reversed(list(_BOX.finditer(reply))):
        if word := _BOX_WORD.match(reply, box.end()):
            return word[1]
        start = _BOX_BRACE.match(reply, box.end())
        if start is not None and start.end() - 1 in ends:
            return reply[start.end() : ends[start.end() - 1]].strip()
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
    lasts = {close: reply.rfind(close) for close in _CLOSED_BY.values()}
    found, place = None, 0
    while opening := _OPENING.search(reply, place):
        place = opening.start() + 1
        for sign in ("$$", "$") if opening[0] == "$$" else (opening[0],):
            close, inside = _CLOSED_BY[sign], opening.start() + len(sign)
            if lasts[close] > inside:  # so that what is found is left behind: nothing is read twice
                end = reply.find(close, inside + 1)
                found, place = reply[inside:end], end + len(close)
                break
    return None if found is None else found.strip()


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
