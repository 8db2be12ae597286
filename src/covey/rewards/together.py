"""Questions that come at the same time are answered together, one batch after another, on another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Question = TypeVar("Question")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Line(Generic[Question, Answer]):
    """What waits in one event loop."""

    waiting: list[tuple[list[Question], asyncio.Future[list[Answer]]]] = field(default_factory=list)
    worker: asyncio.Task[None] | None = None


class Together(Generic[Question, Answer]):
    """Calls ``answer`` with all questions that came since its last call; it gives one answer a question, in order.

    Never two calls at a time. What it raises, everybody gets whose questions were among them. A caller that gives up
    leaves the others alone.
    """

    def __init__(self, answer: Callable[[list[Question]], list[Answer]]) -> None:
        self._answer = answer
        self._one = threading.Lock()
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line[Question, Answer]] = WeakKeyDictionary()

    async def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers to these."""
        loop = asyncio.get_running_loop()
        line = self._lines.setdefault(loop, _Line())
        answered: asyncio.Future[list[Answer]] = loop.create_future()
        line.waiting.append((list(questions), answered))
        if line.worker is None:
            line.worker = loop.create_task(self._work(line))  # begins after everybody who is ready has asked
        return await answered

    async def _work(self, line: _Line[Question, Answer]) -> None:
        try:
            while line.waiting:
                taken = [(questions, answered) for questions, answered in line.waiting if not answered.done()]
                line.waiting.clear()
                await self._serve(taken)
        finally:
            line.worker = None

    async def _serve(self, taken: list[tuple[list[Question], asyncio.Future[list[Answer]]]]) -> None:
        asked = [question for questions, _ in taken for question in questions]
        try:
            answers = iter(await asyncio.to_thread(self._alone, asked))
        except Exception as error:
            for _, answered in taken:
                if not answered.done():
                    answered.set_exception(error)
            return
        for questions, answered in taken:
            own = list(islice(answers, len(questions)))
            if not answered.done():
                answered.set_result(own)

    def _alone(self, asked: list[Question]) -> list[Answer]:
        with self._one:  # a thread of a loop that was closed may still be at work
            return self._answer(asked)
