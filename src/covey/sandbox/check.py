"""Which level of confinement holds on this machine: found by trying to break out, not by asking for versions."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from covey.errors import ConfigError
from covey.sandbox.limits import Limits
from covey.sandbox.outcome import SandboxError
from covey.sandbox.sandbox import Level, Sandbox

CANARIES = {
    "read a file": "print(open({file!r}).read())",
    "write a file": "open({file!r}, 'a').write('x'); print('done')",
    "change a mode": "import os; os.chmod({file!r}, 0o600); print('done')",
    "look into /proc": "print(open('/proc/{parent}/environ', 'rb').read()[:0], 'done')",
    "tcp": "import socket; socket.create_connection(('127.0.0.1', {port}), 1); print('done')",
    "udp": "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port})); print('done')",
    "unix socket": "import socket; socket.socket(1).connect({socket!r}); print('done')",
    "fork": "import os; print(os.fork())",
    "another program": "import os; print('done' if os.system('true') == 0 else '')",
    "signal the trainer": "import os; os.kill({parent}, 0); print('done')",
    "more memory": "print(len(b'x' * (1 << 31)))",
    "new namespaces": "import ctypes; print('done' if ctypes.CDLL(None).unshare(0x10000000) == 0 else '')",
}
"""Programs that print something if they can do what they want."""

_OPEN_AT_L3 = frozenset({"read a file", "write a file", "look into /proc"})


@dataclass(frozen=True, slots=True)
class Report:
    """What was tried at a level; ``problem`` is why it cannot be used at all."""

    level: Level
    held: dict[str, bool]
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether everything held that the level promises."""
        promised = (
            self.held.items() if self.level != "L3" else [(n, h) for n, h in self.held.items() if n not in _OPEN_AT_L3]
        )
        return not self.problem and all(held for _, held in promised)


def try_level(level: Level) -> Report:
    """Run all canaries at a level."""
    if sys.platform != "linux":
        return Report(level, {}, "the sandbox needs Linux")
    sandbox = Sandbox(level, workers=1, limits=Limits(wall=10.0))
    try:
        if sandbox.run("print(6 * 7)").text != "42\n":
            return Report(level, {}, "a harmless program does not run")
        return Report(level, _canaries(sandbox))
    except SandboxError as error:
        return Report(level, {}, str(error))
    finally:
        sandbox.close()


def _canaries(sandbox: Sandbox) -> dict[str, bool]:
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        os.chmod(folder, 0o755)
        file = Path(folder) / "file"
        file.write_text("secret")
        file.chmod(0o666)
        unix.bind(str(Path(folder) / "socket"))
        unix.listen()
        known = {"file": str(file), "parent": os.getpid(), "port": tcp.getsockname()[1], "socket": unix.getsockname()}
        return {name: not sandbox.run(text.format(**known)).stdout.strip() for name, text in CANARIES.items()}


def best_level(minimum: Level = "L2") -> Level:
    """The strongest level that holds. Raises ConfigError if it is weaker than ``minimum``, or none does."""
    problems = []
    for level in ("L1", "L2", "L3"):
        if level > minimum:
            break
        report = try_level(cast("Level", level))
        if report.holds:
            return report.level
        open_ways = ", ".join(name for name, held in report.held.items() if not held)
        problems.append(f"{level}: {report.problem or 'it does not hold against: ' + open_ways}")
    raise ConfigError(
        f"programs cannot be run safely here. {'; '.join(problems)}. On Linux 5.13 or newer L2 works without any "
        "privilege; in a container that forbids Landlock, allow it, or use a remote sandbox."
    )
