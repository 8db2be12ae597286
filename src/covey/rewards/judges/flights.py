"""Work that several callers want at the same time is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class _Flight:
    task: asyncio.Task[Any]
    waiters: int = 0


class Flights:
    """Tasks of one event loop by key. One that nobody waits for any more is cancelled."""

    def __init__(self) -> None:
        self._flying: dict[str, _Flight] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._flying

    async def join(self, key: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What ``work()`` returns or raises, or what the work that is under way for this key does."""
        flight = self._flying.get(key)
        if flight is None:
            flight = self._flying[key] = _Flight(asyncio.ensure_future(work()))
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters:
                del self._flying[key]
                flight.task.cancel()  # changes nothing if it is done
