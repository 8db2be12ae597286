"""Format: the response has each of the wanted tags once, closed and in order."""

from __future__ import annotations

from dataclasses import dataclass

from covey.rewards.base import ResponseReward
from covey.types import Part, Prompt


@dataclass(frozen=True, kw_only=True)
class Tags(ResponseReward):
    """1 if every tag of ``tags`` is opened and closed exactly once, in this order and without overlap, else 0.

    Alone it teaches an empty shell; use it beside a reward for the answer.
    """

    tags: tuple[str, ...] = ("answer",)
    name: str = "tags"

    def __post_init__(self) -> None:
        if not self.tags:
            raise ValueError("tags must name at least one tag")

    def judge(self, prompt: Prompt, reply: str) -> Part:
        place = 0
        for tag in self.tags:
            for mark in (f"<{tag}>", f"</{tag}>"):
                if reply.count(mark) != 1:
                    return Part(value=0.0, why=f"{mark} occurs {reply.count(mark)} times")
                found = reply.find(mark, place)
                if found < 0:
                    return Part(value=0.0, why=f"{mark} is out of order")
                place = found + len(mark)
        return Part(value=1.0)
