"""Finding the answer inside a response."""

from __future__ import annotations


def last_element(reply: str, tag: str) -> str | None:
    """The text of the last closed ``<tag>...</tag>`` without outer blanks, or None when there is none."""
    before_close = reply.rpartition(f"</{tag}>")[0]
    start = before_close.rfind(f"<{tag}>")
    return None if start < 0 else before_close[start + len(tag) + 2 :].strip()
