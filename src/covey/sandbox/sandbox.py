"""The sandbox as others use it: a few warm zygotes at a fixed level of confinement, each with one program at a time."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from covey.sandbox.limits import Limits
from covey.sandbox.outcome import Outcome, SandboxError
from covey.sandbox.process import Process

Level = Literal["L1", "L2", "L3"]
"""``L1``: namespaces with a root of their own, and all of L2. ``L2``: Landlock, a filter of system calls, limits.
``L3``: the filter and limits alone; files of this user can be read and written."""

SYSTEM = (
    "/usr", "/bin", "/lib", "/lib64", "/lib32", "/sbin", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random",
)  # fmt: skip
"""What every program is shown, read-only."""

RUNS = 1000
"""Programs that a zygote serves before a fresh one takes its place."""


class Zygote:
    """One warm interpreter, started afresh with nothing of this process's environment and files."""

    def __init__(self, slot: int, level: Level, modules: Sequence[str]) -> None:
        self.slot, self.runs = slot, 0
        self.place = tempfile.mkdtemp(prefix="covey-sandbox-")
        os.chmod(self.place, 0o1777)  # programs may run as a user of their own
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = str(Path(__file__).parents[2])
        packages = sorted({sysconfig.get_path(name) for name in ("purelib", "platlib")}) if modules else []
        setup = {
            "slot": slot, "level": level, "shown": shown(modules), "place": self.place, "modules": list(modules),
            "paths": packages,
        }  # fmt: skip
        begin = (
            f"import sys; sys.path.insert(0, {root!r}); from covey.sandbox.zygote import main; sys.path.pop(0); "
            f"main({theirs.fileno()}, {setup!r})"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", begin],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            cwd="/", env={"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        theirs.close()
        self.control, self.ready = ours, False

    def start(self, task: Mapping[str, Any], stdin: bytes, limits: Limits) -> Process:
        """Raises SandboxError."""
        try:
            if not self.ready:
                self.control.settimeout(60)
                self.ready = self.control.recv(16) == b"ready"
                self.control.settimeout(None)
                if not self.ready:
                    raise OSError("it did not come up")
            self.runs += 1
            return Process(self.control, {"limits": asdict(limits)}, task, stdin, limits)
        except OSError as error:
            raise SandboxError(f"a zygote died: {error} {self._last_words()}") from error

    def _last_words(self) -> str:
        if self.process.poll() is None or self.process.stderr is None:
            return ""
        return self.process.stderr.read().decode(errors="replace").strip()[-500:]

    def tidy(self) -> None:
        """Remove what a command left in its folder."""
        for entry in os.scandir(self.place):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)

    def kill(self) -> None:
        """With everything that runs in it, which dies with it."""
        self.process.kill()
        self.process.wait()
        self.control.close()
        if self.process.stderr is not None:
            self.process.stderr.close()
        shutil.rmtree(self.place, ignore_errors=True)


def shown(modules: Sequence[str]) -> list[str]:
    """Paths that programs see: the system's own, Python's library, and its packages if some of them are wanted."""
    paths = [*SYSTEM, sysconfig.get_path("stdlib"), sys.base_exec_prefix + "/lib"]
    if modules:
        paths += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    inside = ("/usr/", "/lib/")
    return list(dict.fromkeys(path for path in paths if path in SYSTEM or not path.startswith(inside)))


_Places = queue.SimpleQueue[tuple[int, Zygote | None]]
"""Places for programs that run at the same time, each with its warm zygote; None: one is to be started."""


class Sandbox:
    """Runs programs, ``workers`` at a time, all at one level. ``modules`` are imported before, such as numpy.

    Tests of a program's functions have as many places of their own: whoever waits for one holds a program's place, so
    with common places all might wait for each other.
    """

    def __init__(
        self, level: Level, workers: int = 2, limits: Limits | None = None, modules: Sequence[str] = ()
    ) -> None:
        if workers < 1:
            raise ValueError(f"at least one worker expected, got {workers}")
        self.level: Level = level
        self.workers, self.modules = workers, tuple(modules)
        self.limits = limits or Limits()
        self._lock = threading.Lock()
        self._owner = 0
        self._programs: _Places = queue.SimpleQueue()
        self._tests: _Places = queue.SimpleQueue()
        atexit.register(self.close)

    def run(self, source: str, stdin: str | bytes = b"", limits: Limits | None = None) -> Outcome:
        """A Python program, to its end. Raises SandboxError if the sandbox itself fails."""
        return self._finished({"kind": "program", "source": source}, stdin, limits)

    def command(
        self, argv: Sequence[str], files: Mapping[str, str], stdin: str | bytes = b"", limits: Limits | None = None
    ) -> Outcome:
        """A command in a folder with these files, allowed to start others. Raises SandboxError."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        task = {"kind": "command", "argv": list(argv), "files": dict(files), "environment": environment}
        return self._finished(task, stdin, limits)

    @contextlib.contextmanager
    def functions(self, source: str, limits: Limits | None = None) -> Iterator[Process]:
        """A program whose functions are called one after another, within one time limit for all."""
        with self._process({"kind": "functions", "source": source}, b"", limits) as process:
            yield process

    @contextlib.contextmanager
    def tests(
        self, setup: str, tests: Sequence[str], names: Sequence[str], limits: Limits | None = None
    ) -> Iterator[Process]:
        """Tests of functions of these names, which run elsewhere: every call comes as a message and waits for one."""
        task = {"kind": "tests", "source": setup, "tests": list(tests), "names": list(names)}
        with self._process(task, b"", limits, tests=True) as process:
            yield process

    def _finished(self, task: Mapping[str, Any], stdin: str | bytes, limits: Limits | None) -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with self._process(task, data, limits) as process:
            return process.finish()

    @contextlib.contextmanager
    def _process(
        self, task: Mapping[str, Any], stdin: bytes, limits: Limits | None, tests: bool = False
    ) -> Iterator[Process]:
        places = self._places(tests)
        slot, zygote = places.get()
        try:
            zygote = zygote or Zygote(slot, self.level, self.modules)
            process = zygote.start(task, stdin, limits or self.limits)
            yield process
            process.finish()
            zygote.tidy()
        except BaseException:  # in what state it is nobody knows
            if zygote is not None:
                zygote.kill()
            zygote = None
            raise
        finally:
            if zygote is not None and zygote.runs >= RUNS:
                zygote.kill()
                zygote = None
            places.put((slot, zygote))

    def _places(self, tests: bool) -> _Places:
        with self._lock:
            if self._owner != os.getpid():  # the first call, or the first after a fork: the zygotes are the parent's
                self._owner = os.getpid()
                self._programs, self._tests = queue.SimpleQueue(), queue.SimpleQueue()
                for slot in range(self.workers):
                    self._programs.put((slot, None))
                    self._tests.put((self.workers + slot, None))
            return self._tests if tests else self._programs

    def close(self) -> None:
        """Kill all zygotes that have nothing to do; the next program starts new ones."""
        with self._lock:
            if self._owner != os.getpid():
                return
            self._owner = 0
            for places in (self._programs, self._tests):
                with contextlib.suppress(queue.Empty):
                    while True:
                        _, zygote = places.get_nowait()
                        if zygote is not None:
                            zygote.kill()
