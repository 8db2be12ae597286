"""Stage 2: token ids in, token ids with log-probs out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

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
