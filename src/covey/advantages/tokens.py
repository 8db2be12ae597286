"""Which sampled tokens take part in the policy loss: a named choice, made from the text and never from token ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from covey.errors import AdvantageError
from covey.types import Trajectory, Turn

Span = tuple[int, int]
"""Characters ``start`` to ``stop`` of a reply."""


class TokenChoice(Protocol):
    """Chooses among the sampled tokens of a trajectory, bool[T]; ``needs`` "text_ends" if it reads text."""

    def __call__(self, trajectory: Trajectory, /) -> np.ndarray: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AllTokens:
    """Every token that the policy sampled, its end tokens too."""

    def __call__(self, trajectory: Trajectory, /) -> np.ndarray:
        return trajectory.sampled


class TextChoice:
    """Base of choices by text: ``spans`` names stretches of a reply, in characters."""

    __slots__ = ()
    needs: ClassVar[frozenset[str]] = frozenset({"text_ends"})

    def spans(self, reply: str) -> Sequence[Span]:
        """The stretches whose tokens take part; a stretch to the end of the reply has the end token too."""
        raise NotImplementedError

    def __call__(self, trajectory: Trajectory, /) -> np.ndarray:
        chosen = np.zeros(len(trajectory.tokens), dtype=bool)
        for turn in trajectory.turns:
            for span in self.spans(turn.reply):
                chosen[turn.start : turn.stop] |= tokens_of(turn, span)
        return chosen & trajectory.sampled


def tokens_of(turn: Turn, span: Span) -> np.ndarray:
    """bool[stop - start]: the turn's tokens that hold a character of ``span``, and the end token if it goes that far.

    Raises ValueError where the rollout did not keep the characters of tokens.
    """
    if turn.ends is None:
        raise ValueError("a choice by text needs the place of each token in it: rollout(..., text_ends=True)")
    start, stop = span
    begins = np.concatenate([[0], turn.ends[:-1]])
    # A token without text of its own (part of a character) belongs to the character that it begins.
    inside = (begins < stop) & ((turn.ends > start) | ((turn.ends == begins) & (begins >= start)))
    if start <= len(turn.reply) <= stop:
        inside |= begins >= len(turn.reply)  # tokens without text at the very end
    return inside


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterReasoning(TextChoice):
    """Only what comes after the last ``</tag>``. A reply that never closes it has no token in the loss."""

    tag: str = "think"

    def spans(self, reply: str) -> Sequence[Span]:
        closing = f"</{self.tag}>"
        place = reply.rfind(closing)
        return [] if place < 0 else [(place + len(closing), len(reply))]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSpan(TextChoice):
    """Only the last ``<tag>...</tag>``, its tags included; an unclosed one reaches to the end."""

    tag: str = "answer"

    def spans(self, reply: str) -> Sequence[Span]:
        found = list(re.finditer(rf"<{re.escape(self.tag)}>.*?(</{re.escape(self.tag)}>|\Z)", reply, re.DOTALL))
        return [found[-1].span()] if found else []


class FunctionChoice(TextChoice):
    """A user's function from a reply to (start, stop) pairs of characters."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[str], Sequence[Span]]) -> None:
        self.function = function

    def spans(self, reply: str) -> Sequence[Span]:
        name = getattr(self.function, "__name__", "function")
        try:
            return [(int(start), int(stop)) for start, stop in self.function(reply)]
        except Exception as error:  # a user's code
            raise AdvantageError(
                f"tokens {name} must return (start, stop) pairs of characters of the reply; for {reply[:40]!r}: "
                f"{type(error).__name__}: {error}"
            ) from error


TOKEN_CHOICES: dict[str, type] = {
    "all": AllTokens,
    "after_reasoning": AfterReasoning,
    "answer": AnswerSpan,
}
