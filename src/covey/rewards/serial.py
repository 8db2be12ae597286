"""Users' functions, one call after another on a thread of their own, each under a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, asyncio.Future[None], asyncio.Future[Any]]


class Serial:
    """One call at a time, so that functions need not be safe for several threads.

    A call that passes its deadline is left behind with its thread, which cannot be stopped, and the next ones go on in
    another. The event loop is free meanwhile. A function that says it needs the main thread, for a signal perhaps, is
    called where :meth:`run` was, from then on; no deadline holds there.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._here = False

    async def run(self, function: Callable[[], Any], deadline: float) -> Any:
        """What the function returns or raises; TimeoutError ``deadline`` seconds after its turn came."""
        if self._here:
            return function()
        try:
            return await self._elsewhere(function, deadline)
        except ValueError as error:
            if "main thread" not in str(error):
                raise
            self._here = True
            return function()

    async def _elsewhere(self, function: Callable[[], Any], deadline: float) -> Any:
        loop = asyncio.get_running_loop()
        started, done = loop.create_future(), loop.create_future()
        if self._thread is None or not self._thread.is_alive():  # none yet, or that of the process this is a fork of
            self._begin()
        self._jobs.put((function, loop, started, done))
        await started
        try:
            return await asyncio.wait_for(done, deadline)
        except TimeoutError as error:
            if not done.cancelled():
                raise  # it is the function's own
            self._leave_behind()
            raise TimeoutError(f"it took more than its deadline of {deadline:g} s") from error

    def _begin(self) -> None:
        self._jobs = queue.SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._jobs,), name="reward", daemon=True)
        self._thread.start()

    def _leave_behind(self) -> None:
        """Take what is waiting to a new thread; the old one ends after its call, if that ever ends."""
        old = self._jobs
        self._begin()
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.put(old.get_nowait())
        old.put(None)


def _work(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        function, loop, started, done = job
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(_settle, started, None, None)
        try:
            value, error = function(), None
        except BaseException as raised:
            value, error = None, raised
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, done, value, error)


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
