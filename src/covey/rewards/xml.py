"""Format: the response is made of the wanted elements, as well-formed XML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.parsers import expat

from covey.rewards.base import ResponseReward
from covey.types import Part, Prompt

_BLANKS = " \t\r\n"
_PATH = re.compile(r"[A-Za-z_][\w.-]*(?:/[A-Za-z_][\w.-]*)*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Xml(ResponseReward):
    """1 if the reply consists of exactly ``elements``, each once and in this order, else 0.

    An element inside another is listed as ``"a/b"``, after ``"a"``; others inside are not allowed, nor are attributes.
    ``outside = "anything"`` lets text and other elements stand before, between and after those that are listed. All of
    it must be well-formed either way: "x < y" as text is not. The reply is read inside a root of ours, where a document
    type is a syntax error, so there are no entities but XML's own five.

    Alone it teaches an empty shell; use it beside a reward for the answer.
    """

    elements: tuple[str, ...] = ("think", "answer")
    outside: Literal["nothing", "anything"] = "nothing"
    name: str = "xml"

    def __post_init__(self) -> None:
        if self.outside not in ("nothing", "anything"):
            raise ValueError(f'outside is "nothing" or "anything", got {self.outside!r}')
        if not self.elements or len(set(self.elements)) < len(self.elements):
            raise ValueError(f"elements must be at least one and none twice, got {list(self.elements)}")
        for place, path in enumerate(self.elements):
            parent = path.rpartition("/")[0]
            if not _PATH.fullmatch(path) or (parent and parent not in self.elements[:place]):
                raise ValueError(f"elements are names, or parent/name after their parent, got {path!r}")

    def judge(self, prompt: Prompt, reply: str) -> Part:
        reader = _Reader(self.elements, self.outside == "nothing")
        try:
            reader.read(reply)
        except _RefusedError as refused:
            return Part(value=0.0, why=str(refused))
        except (expat.ExpatError, ValueError) as error:  # the latter for characters that have no encoding
            return Part(value=0.0, why=f"not well-formed: {error}")
        return Part(value=1.0)


class _RefusedError(Exception):
    """The reply is not what is wanted; reading stops there."""


class _Reader:
    """Follows the wanted elements through one reply."""

    def __init__(self, elements: Sequence[str], strict: bool) -> None:
        self.elements, self.strict = elements, strict
        self.tops = {path.partition("/")[0] for path in elements}
        self.path: list[str] = []  # of wanted elements that are open
        self.ignored = 0  # depth inside an element that may be anything
        self.found = 0
        self.rooted = False

    def read(self, reply: str) -> None:
        """Raises _RefusedError, or what expat raises for text that is not well-formed."""
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self.start, self.end
        parser.CharacterDataHandler = self.text
        parser.CommentHandler = lambda _: self.other("a comment")
        parser.ProcessingInstructionHandler = lambda *_: self.other("an instruction")
        parser.Parse(f"<root>{reply}</root>", True)
        if self.found < len(self.elements):
            raise _RefusedError(f"<{self.elements[self.found]}> is missing")

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if not self.rooted:
            self.rooted = True
        elif self.ignored or (not self.strict and not self.path and name not in self.tops):
            self.ignored += 1
        else:
            self.path.append(name)
            path = "/".join(self.path)
            wanted = self.elements[self.found] if self.found < len(self.elements) else None
            if path != wanted:
                raise _RefusedError(f"<{path[:40]}> stands where {f'<{wanted}>' if wanted else 'no more'} is expected")
            if attributes:
                raise _RefusedError(f"<{path}> has attributes")
            self.found += 1

    def end(self, name: str) -> None:
        if self.ignored:
            self.ignored -= 1
        elif self.path:
            self.path.pop()

    def text(self, data: str) -> None:
        if self.strict and not self.path and data.strip(_BLANKS):
            raise _RefusedError("text outside of the elements")

    def other(self, what: str) -> None:
        if self.strict and not self.path:
            raise _RefusedError(f"{what} outside of the elements")
