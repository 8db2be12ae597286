"""Stage 2: token ids in, token ids with log-probs out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from covey.types import Completion, Request


class Engine(Protocol):
    """Samples from the policy. ``covey.testing.engine_contract`` is the suite that every engine passes."""

    async def generate(self, requests: Sequence[Request], /) -> list[Completion]:
        """One completion a request, tied by ``id``; the order of the answer carries no meaning."""
        ...

    async def load_weights(self, source: Any, version: int, /) -> None:
        """Sample from these weights from now on and stamp completions with ``version``."""
        ...

    async def close(self) -> None:
        """Free what the engine holds. Calling it twice is harmless."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call of an engine is."""

    ended: int  # responses
    asked: int  # responses
    drawn: int  # tokens
    newest: np.ndarray  # i64[t]: tokens of a response on its way, or of the last that ended


Listener = Callable[[Progress], None]


@runtime_checkable
class Telling(Protocol):
    """An engine that tells how far it is while it samples."""

    listener: Listener | None


@runtime_checkable
class Streaming(Protocol):
    """An engine that hands completions over as they end, so that they can be judged while others are sampled."""

    def stream(self, requests: Sequence[Request], /) -> AsyncGenerator[list[Completion], None]:
        """What ended since the last time, until every request has been answered once; a list may be empty."""
        ...
