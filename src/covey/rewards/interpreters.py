"""Interpreters of our own that answer questions under a deadline and can be killed: no input stalls a run.

Threads cannot be stopped and signals only reach the main thread, so neither keeps a deadline. Works the same from any
thread, from asynchronous code through ``asyncio.to_thread``, and after a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

START = 60.0
"""Seconds that a new interpreter may take until it listens."""


class CrashError(Exception):
    """The interpreter died over the question, for instance because it needed more memory than it may have."""


class _Interpreter:
    """One process; it listens as soon as its imports are done."""

    def __init__(self, target: str, memory: int) -> None:
        begin = (
            f"import sys; sys.path[:] = {sys.path!r}; from covey.rewards.interpreters import serve; "
            f"serve({target!r}, {memory})"
        )
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", begin],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**kept, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        self.ready = False

    def ask(self, question: Any, deadline: float) -> Any:
        """Raises TimeoutError or CrashError, after which the process is dead."""
        try:
            if not self.ready:
                self._line(time.monotonic() + START)
                self.ready = True
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
            return json.loads(self._line(time.monotonic() + deadline))
        except (BrokenPipeError, ValueError) as error:
            raise CrashError("the interpreter died") from error

    def _line(self, until: float) -> bytes:
        """The next line, without ever waiting longer."""
        assert self.process.stdout is not None
        handle, found = self.process.stdout.fileno(), b""
        while not found.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                raise TimeoutError
            block = os.read(handle, 1 << 16)
            if not block:
                raise CrashError("the interpreter died")
            found += block
        return found

    def kill(self) -> None:
        """At once, and leave nothing behind."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Interpreters:
    """``size`` interpreters, and a spare one that is warm when one has to be killed.

    ``target`` is ``module:function``, called with each question, which like its answer must be JSON. ``deadline`` in
    seconds counts from when an interpreter has taken the question; waiting for a free one does not count. ``memory``
    in bytes is of each process's address space.
    """

    def __init__(self, target: str, size: int = 2, deadline: float = 3.0, memory: int = 3 << 30) -> None:
        if size < 1 or deadline <= 0:
            raise ValueError(f"at least one interpreter and a deadline above 0 expected, got {size} and {deadline}")
        self.target, self.size, self.deadline, self.memory = target, size, deadline, memory
        self._lock = threading.Lock()
        self._owner = 0
        atexit.register(self.close)

    def ask(self, question: Any) -> Any:
        """The answer. Raises TimeoutError past the deadline, CrashError where the process died; both cost one process.

        Whatever the function itself raises comes back as CrashError too.
        """
        self._start()
        self._free.acquire()
        interpreter = self._idle.get()
        try:
            answer = interpreter.ask(question, self.deadline)
        except BaseException:
            interpreter.kill()
            self._idle.put(_Interpreter(self.target, self.memory))  # behind the spare, so it has time to get warm
            raise
        else:
            self._idle.put(interpreter)
        finally:
            self._free.release()
        if "error" in answer:
            raise CrashError(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        """Kill all; the next question starts new ones."""
        with self._lock:
            if self._owner != os.getpid():
                return
            self._owner = 0
            while not self._idle.empty():
                self._idle.get().kill()

    def _start(self) -> None:
        """Once a process: what was there before a fork belongs to the parent."""
        with self._lock:
            if self._owner == os.getpid():
                return
            self._owner = os.getpid()
            self._free = threading.Semaphore(self.size)
            self._idle: queue.SimpleQueue[_Interpreter] = queue.SimpleQueue()
            for _ in range(self.size + 1):
                self._idle.put(_Interpreter(self.target, self.memory))


def serve(target: str, memory: int) -> None:
    """The other end: answer one line after another until the input closes."""
    _limit(memory)
    answers, questions = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)  # what is printed does not get among the answers
    function = load(target)
    answers.write(b"ready\n")
    answers.flush()
    for line in questions:
        try:
            answer = {"answer": function(json.loads(line))}
        except MemoryError:
            os._exit(1)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def load(target: str) -> Callable[[Any], Any]:
    """The function that ``module:function`` names."""
    module, _, name = target.partition(":")
    return getattr(__import__(module, fromlist=[name]), name)  # type: ignore[no-any-return]
