"""One program that runs in a zygote: its pipes, its clock, its end."""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from covey.sandbox.driver import MEMORY
from covey.sandbox.frames import LONGEST, NotPlainError, frame, pack, unpack
from covey.sandbox.limits import Limits
from covey.sandbox.outcome import Outcome, ProgramError, SandboxError, Status

GRACE = 2.0
"""Seconds that a zygote has to see a killed program off."""

_STDIN, _STDOUT, _STDERR, _RESULTS, _QUESTIONS = range(5)


class Asked(ABC):
    """A program whose functions are called from outside."""

    def call(self, function: str, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """The value of one call. Raises ProgramError, and NotPlainError for arguments that cannot be handed over."""
        named = {name: pack(value) for name, value in (kwargs or {}).items()}
        answer = self.ask({"function": function, "args": [pack(arg) for arg in args], "kwargs": named})
        if "error" in answer:
            raised, text = str(answer["error"])[:80], str(answer.get("text", ""))[:200]
            raise ProgramError("not_plain" if raised == "NotPlainError" else "raised", f"{raised}: {text}", raised)
        try:
            return unpack(answer["value"])
        except (NotPlainError, RecursionError) as error:
            raise ProgramError("not_plain", str(error)) from error

    @abstractmethod
    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one question, as the program gives it. Raises ProgramError when none comes."""


class Process(Asked):
    """Started by its maker; :meth:`finish` waits for its end, :meth:`call` asks one of its functions."""

    def __init__(
        self, control: socket.socket, job: Mapping[str, Any], task: Mapping[str, Any], stdin: bytes, limits: Limits
    ) -> None:
        self.control, self.limits = control, limits
        inner, outer = self._pipes()
        try:
            socket.send_fds(control, [json.dumps(job).encode()], inner)
        finally:
            for handle in inner:
                os.close(handle)
        self.handles = outer
        self.pending = {_STDIN: stdin, _QUESTIONS: frame(task)}
        self.found = {_STDOUT: b"", _STDERR: b"", _RESULTS: b""}
        self.code: int | None = None
        self.verdict: Status | None = None  # of this side, before the program's own end
        self.outcome: Outcome | None = None
        self.asked = 0
        self.began = time.monotonic()
        self.until = self.began + limits.wall
        self.ending = {_STDIN}  # to be closed as soon as all is written
        self.selector = selectors.DefaultSelector()
        self.selector.register(control, selectors.EVENT_READ)
        self.watched = {_STDOUT, _STDERR, _RESULTS}
        for place, handle in outer.items():
            os.set_blocking(handle, False)
            if place in self.watched:
                self.selector.register(handle, selectors.EVENT_READ, place)
        for place in (_STDIN, _QUESTIONS):
            self._write(place, b"")

    @staticmethod
    def _pipes() -> tuple[list[int], dict[int, int]]:
        """The program's ends in order, and ours."""
        inner, outer = [], {}
        for place in range(5):
            reading, writing = os.pipe()
            mine = writing if place in (_STDIN, _QUESTIONS) else reading
            outer[place] = mine
            inner.append(reading if mine is writing else writing)
        return inner, outer

    # Asking

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one question, as the program gives it. Raises ProgramError when none comes."""
        self.asked += 1
        if self.found[_RESULTS]:
            self.verdict = "protocol"  # it answered before it was asked
        self.send({**question, "id": self.asked})
        answer = self.receive()
        if answer is not None and not (answer.get("id") == self.asked and ("value" in answer) != ("error" in answer)):
            self.verdict, answer = "protocol", None
        if answer is None:
            outcome = self.finish()
            raise ProgramError(outcome.status, outcome.last_error or f"the program ended: {outcome.status}")
        return answer

    def send(self, message: Mapping[str, Any]) -> None:
        """Put a message into the program's pipe."""
        self._write(_QUESTIONS, frame(message))

    def receive(self) -> dict[str, Any] | None:
        """The next message of the program; None when it is over, or has broken the rules."""
        while self.verdict is None:
            data = self.found[_RESULTS]
            length = struct.unpack(">I", data[:4])[0] if len(data) >= 4 else LONGEST
            if len(data) >= 4 and length > LONGEST:
                self.verdict = "output_limit"
            elif len(data) >= 4 + length:
                self.found[_RESULTS] = data[4 + length :]
                return self._read(data[4 : 4 + length])
            elif self.code is not None or _RESULTS not in self.handles:
                return None
            else:
                self._turn()
        return None

    def _read(self, data: bytes) -> dict[str, Any] | None:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self.verdict = "protocol"
            return None
        return message

    # Waiting

    def finish(self) -> Outcome:
        """Wait for the end, or bring it about when the time is over. Raises SandboxError if the zygote is silent."""
        if self.outcome is not None:
            return self.outcome
        self.ending.add(_QUESTIONS)
        self._write(_QUESTIONS, b"")
        while self.code is None and self.verdict is None:
            self._turn()
        if self.code is None:
            self._kill()
        self._drain()
        seconds = time.monotonic() - self.began
        for place in list(self.handles):
            self._close(place)
        self.selector.close()
        out, err = self.found[_STDOUT][: self.limits.output], self.found[_STDERR][: self.limits.output]
        status = self.verdict or self._status(err)
        self.outcome = Outcome(status=status, stdout=out, stderr=err, code=self.code, seconds=seconds)
        return self.outcome

    def stop(self) -> None:
        """Do not wait any longer; the program is killed."""
        self.verdict = self.verdict or "killed"
        self.finish()

    def _status(self, err: bytes) -> Status:
        assert self.code is not None
        if err.startswith(b"sandbox: "):
            raise SandboxError(err.decode(errors="replace").strip()[:300])
        if self.code == MEMORY or b"MemoryError" in err[-200:]:
            return "memory"
        if self.code in (-24, -9):
            return "timeout" if self.code == -24 else "killed"
        return "ended" if self.code == 0 else "killed" if self.code < 0 else "error"

    def _turn(self) -> None:
        """Read and write whatever is ready, once; past the deadline the verdict is timeout."""
        left = self.until - time.monotonic()
        if left <= 0:
            self.verdict = "timeout"
            return
        for key, _ in self.selector.select(left):
            if key.fileobj is self.control:
                self._ended()
            elif key.data in self.pending:
                self._write(key.data, b"")
            else:
                self._take(key.data)

    def _ended(self) -> None:
        data = self.control.recv(1 << 12)
        if not data:
            raise SandboxError("the zygote died")
        self.code = int(json.loads(data)["code"])
        self.selector.unregister(self.control)

    def _take(self, place: int) -> None:
        try:
            block = os.read(self.handles[place], 1 << 16)
        except BlockingIOError:
            return
        if not block:
            self._close(place)
            return
        self.found[place] += block
        if len(self.found[place]) > (self.limits.output if place != _RESULTS else LONGEST + 4):
            self.verdict = self.verdict or "output_limit"

    def _write(self, place: int, data: bytes) -> None:
        """Write what can be written now and keep the rest for when the pipe is free."""
        if place not in self.handles:
            return
        rest = self.pending.get(place, b"") + data
        try:
            while rest:
                rest = rest[os.write(self.handles[place], rest) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._close(place)
            return
        self.pending[place] = rest
        self._watch(place, bool(rest))
        if not rest and place in self.ending:
            self._close(place)

    def _watch(self, place: int, wanted: bool) -> None:
        """Have the selector say when more can be written, as long as there is more."""
        if wanted and place not in self.watched:
            self.selector.register(self.handles[place], selectors.EVENT_WRITE, place)
            self.watched.add(place)
        elif not wanted and place in self.watched:
            self.selector.unregister(self.handles[place])
            self.watched.discard(place)

    def _close(self, place: int) -> None:
        if place in self.handles:
            if place in self.watched:
                self.selector.unregister(self.handles[place])
                self.watched.discard(place)
            os.close(self.handles.pop(place))

    def _drain(self) -> None:
        """What the program wrote before its end and nobody has read yet."""
        for place in (_STDOUT, _STDERR):
            while place in self.handles and len(self.found[place]) <= self.limits.output:
                before = len(self.found[place])
                self._take(place)
                if place in self.handles and len(self.found[place]) == before:
                    break

    def _kill(self) -> None:
        """Have the zygote kill it and everything it left behind."""
        try:
            self.control.send(b"kill")
            self.control.settimeout(GRACE)
            self.code = int(json.loads(self.control.recv(1 << 12))["code"])
        except (OSError, ValueError) as error:
            raise SandboxError(f"the zygote did not see a killed program off: {error}") from error
        finally:
            self.control.settimeout(None)
