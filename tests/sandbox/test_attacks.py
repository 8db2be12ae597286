"""Programs that mean harm: each does it where the sandbox is off, and none where it is on.

A program that prints WON has done what it wanted; what it cannot know, such as whether a packet arrived, is looked at
from outside. Numbers are kept small where the sandbox is off.
"""

import contextlib
import os
import platform
import socket
import stat
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from covey.sandbox.limits import Limits
from covey.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is for Linux")

LEVELS = ["L1", "L2"]
TIGHT = Limits(cpu=1.0, wall=1.5, memory=400 << 20, output=1 << 16, file=1 << 20, scratch=2 << 20)


@dataclass
class World:
    """What there is to harm."""

    secret: Path
    folder: Path
    victim: subprocess.Popen
    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    abstract: socket.socket
    inherited: int

    def names(self):
        return {
            "secret": str(self.secret), "folder": str(self.folder), "victim": self.victim.pid, "parent": os.getpid(),
            "tcp": self.tcp.getsockname()[1], "udp": self.udp.getsockname()[1], "unix": self.unix.getsockname(),
            "abstract": self.abstract.getsockname(), "mark": str(self.folder / "mark"),
        }  # fmt: skip

    def heard(self, listener):
        with contextlib.suppress(OSError):
            listener.settimeout(0.2)
            if listener.type == socket.SOCK_DGRAM:
                return bool(listener.recv(16))
            connection, _ = listener.accept()
            connection.close()
            return True
        return False


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setenv("API_TOKEN", "token-of-the-trainer")
    # Not tmp_path: that is closed to other users, and the sandbox shall keep them out by itself.
    folder = Path("/var/tmp") / f"covey-attack-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (folder / "secret").write_text("the expected answer")
    (folder / "secret").chmod(0o666)
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    unix.bind(str(folder / "socket"))
    (folder / "socket").chmod(0o777)
    abstract.bind(f"\0covey-{os.getpid()}-{time.monotonic_ns()}")
    unix.listen()
    abstract.listen()
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    inherited = os.open(folder / "secret", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    found = World(folder / "secret", folder, victim, tcp, udp, unix, abstract, inherited)
    yield found
    victim.kill()
    victim.wait()
    os.close(inherited)
    for listener in (tcp, udp, unix, abstract):
        listener.close()
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def syscall(numbers, *args):
    """A program that makes one system call; it has won if the kernel took it at all."""
    number = numbers[platform.machine()]
    return f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall({number}, *{args!r})
print("WON" if result >= 0 or ctypes.get_errno() not in (1, 38) else "lost", ctypes.get_errno())
"""


def both(x86, arm):
    return {"x86_64": x86, "aarch64": arm}


PRINTED = {
    "read a file": "print('WON' if 'expected' in open({secret!r}).read() else '')",
    "list a folder": "import os; print('WON' if 'secret' in os.listdir({folder!r}) else '')",
    "environment": "import os; print('WON' if os.environ.get('API_TOKEN') or len(os.environ) > 3 else '')",
    "environment of its parent": """
import os
print('WON' if open(f'/proc/{{os.getppid()}}/environ', 'rb').read() else '')
""",
    "memory of its parent": """
import os
maps = open(f'/proc/{{os.getppid()}}/maps').readline().split('-')[0]
with open(f'/proc/{{os.getppid()}}/mem', 'rb') as memory:
    memory.seek(int(maps, 16))
    print('WON' if memory.read(8) else '')
""",
    "command lines": """
import os
others = [p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]
print('WON' if any(open(f'/proc/{{p}}/cmdline').read() for p in others) else '')
""",
    "a file handle left open": """
import os
for handle in range(5, 200):
    try:
        os.fstat(handle)
    except OSError:
        continue
    print('WON')
    break
""",
    "fork": "import os\nif os.fork(): print('WON')\nelse: os._exit(0)",
    "another program": "import os; print('WON' if os.system('true') == 0 else '')",
    "subprocess": "import subprocess; print('WON', subprocess.run(['/bin/true']).returncode)",
    "exec": "import os; os.execv('/bin/echo', ['echo', 'WON'])",
    "a thread": "import threading; t = threading.Thread(target=lambda: print('WON')); t.start(); t.join()",
    "more memory than allowed": "b = bytearray(3 << 28); b[::4096] = b'x' * len(b[::4096]); print('WON')",
    "raise its own limits": """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
print('WON')
""",
    "shared memory": """
import os
open('/dev/shm/covey-attack', 'w').write('x')
os.remove('/dev/shm/covey-attack')
print('WON')
""",
    "listen": "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print('WON')",
    "socket pair": "import socket; socket.socketpair(); print('WON')",
    "look up a name": "import socket; print('WON' if socket.getaddrinfo('localhost', 80) else '')",
    "who is there": "import os; os.kill({victim}, 0); print('WON')",
    "priority": "import os; os.setpriority(os.PRIO_PROCESS, 0, 10); print('WON')",
    "anonymous file": "import os; os.memfd_create('x'); print('WON')",
    "new namespaces": syscall(both(272, 97), 0x10000000),
    "io_uring": syscall(both(425, 425), 0, 0),
    "keyring": syscall(both(250, 219), 0, 0, 0, 0, 0),
    "trace": syscall(both(101, 117), 0, 0, 0, 0),
    "memory of others": syscall(both(310, 270), 1, 0, 0, 0, 0, 0),
    "userfaultfd": syscall(both(323, 282), 1),
    "bpf": syscall(both(321, 280), 0, 0, 0),
    "performance counters": syscall(both(298, 241), 0, 0, 0, 0, 0),
    "mount": syscall(both(165, 40), 0, 0, 0, 0, 0),
    "a process's handle": syscall(both(434, 434), 1, 0),
    "system v memory": syscall(both(29, 194), 0, 4096, 0o1600),
    "message queue": syscall(both(240, 180), 0, 0, 0, 0),
    "file handles by number": syscall(both(304, 265), -1, 0, 0),
    "a device": syscall(both(259, 33), -100, b"", 0o20666, 0),
}  # fmt: skip

OUTSIDE = {
    "write a file": ("open({mark!r}, 'w').write('x')", lambda w: (w.folder / "mark").exists()),
    "append to a file": ("open({secret!r}, 'a').write('!')", lambda w: w.secret.read_text().endswith("!")),
    "truncate a file": ("import os; os.truncate({secret!r}, 0)", lambda w: not w.secret.read_text()),
    "delete a file": ("import os; os.remove({secret!r})", lambda w: not w.secret.exists()),
    "rename a file": ("import os; os.rename({secret!r}, {mark!r})", lambda w: (w.folder / "mark").exists()),
    "link a file": ("import os; os.link({secret!r}, {mark!r})", lambda w: (w.folder / "mark").exists()),
    "plant a symbolic link": ("import os; os.symlink('/etc', {mark!r})", lambda w: (w.folder / "mark").is_symlink()),
    "change a mode": (
        "import os; os.chmod({secret!r}, 0)",
        lambda w: stat.S_IMODE(w.secret.stat().st_mode) == 0,
    ),
    "change times": ("import os; os.utime({secret!r}, (1, 1))", lambda w: w.secret.stat().st_mtime == 1),
    "set an attribute": (
        "import os; os.setxattr({secret!r}, 'user.x', b'1')",
        lambda w: "user.x" in os.listxattr(w.secret),
    ),
    "tcp": ("import socket; socket.create_connection(('127.0.0.1', {tcp}))", lambda w: w.heard(w.tcp)),
    "udp": (
        "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {udp}))",
        lambda w: w.heard(w.udp),
    ),
    "unix socket": ("import socket; socket.socket(1).connect({unix!r})", lambda w: w.heard(w.unix)),
    "abstract socket": ("import socket; socket.socket(1).connect({abstract!r})", lambda w: w.heard(w.abstract)),
    "kill another process": ("import os; os.kill({victim}, 9)", lambda w: dies(w.victim)),
    "daemon": (
        """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        time.sleep(0.5)
        open({mark!r}, 'w').write('x')
    os._exit(0)
""",
        lambda w: appears(w.folder / "mark"),
    ),
    "fill the disk": (
        "for i in range(8):\n with open({mark!r} + str(i), 'wb') as f: f.write(b'x' * 1000000)",
        lambda w: sum(p.stat().st_size for p in w.folder.iterdir()) > 4_000_000,
    ),
}  # fmt: skip


def dies(process):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.3)
    return process.returncode is not None


def appears(path):
    time.sleep(1.0)
    return path.exists()


@pytest.fixture(scope="module", params=LEVELS)
def sandbox(request):
    sandbox = Sandbox(request.param, workers=1, limits=TIGHT)
    yield sandbox
    sandbox.close()


def off(source, world):
    """The same program without any sandbox, which ends within a second or is left to itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        pass_fds=[world.inherited],
    )  # fmt: skip
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=10)[0]
    process.kill()
    return process.communicate()[0]


def text_of(source, world):
    return source.format(**world.names()) if "{" in source and "libc" not in source else source


NEEDS_ROOT = {"mount", "a device", "bpf", "performance counters", "userfaultfd", "file handles by number"}


@pytest.mark.parametrize("name", PRINTED)
def test_an_attack_that_prints_works_where_the_sandbox_is_off(name, world):
    if name in NEEDS_ROOT and os.getuid() != 0:
        pytest.skip("only root can do this at all")
    output = off(text_of(PRINTED[name], world), world)
    assert "WON" in output


@pytest.mark.parametrize("name", PRINTED)
def test_no_attack_that_prints_works(name, sandbox, world):
    outcome = sandbox.run(text_of(PRINTED[name], world))
    assert "WON" not in outcome.text, outcome
    assert sandbox.run("print('well')").text == "well\n"


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_attack_on_the_world_works_where_the_sandbox_is_off(name, world):
    source, won = OUTSIDE[name]
    output = off(text_of(source, world), world)
    assert won(world), output


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_attack_on_the_world_works(name, sandbox, world):
    source, won = OUTSIDE[name]
    outcome = sandbox.run(text_of(source, world))
    assert not won(world), outcome
    assert sandbox.run("print('well')").text == "well\n"


STUBBORN = {
    "loop": "while True: pass",
    "loop that catches everything": "while True:\n try:\n  while True: pass\n except BaseException: pass",
    "loop that ignores signals": """
import signal
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass
""",
    "sleep": "import time; time.sleep(1000)",
    "sleep at exit": "import atexit, time; atexit.register(time.sleep, 1000)",
    "wait for input": "import sys\nwhile True: sys.stdin.read()",
    "huge number": "print(len(str(9 ** (9 ** 9))))",
    "regular expression": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
}  # fmt: skip


@pytest.mark.parametrize("name", STUBBORN)
def test_the_clock_holds(name, sandbox):
    began = time.monotonic()
    assert sandbox.run(STUBBORN[name]).status == "timeout"
    assert time.monotonic() - began < TIGHT.wall + 1.0
    assert sandbox.run("print('well')").text == "well\n"


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("while True: print('x' * 1000)", "output_limit"),
        ("import sys\nwhile True: sys.stderr.write('x' * 1000)", "output_limit"),
        ("import os\nwhile True: os.write(1, b'x' * 60000)", "output_limit"),
        ("x = []\nwhile True: x.append(bytearray(10_000_000))", "memory"),
        ("x = 'x' * (1 << 40)", "memory"),
        ("import sys; sys.exit(3)", "error"),
        ("1 / 0", "error"),
        ("def f(): f()\nf()", "error"),
        ("this is no program", "error"),
        ("import os; os.abort()", "killed"),
        ("import ctypes; ctypes.string_at(0)", "killed"),
        ("print('fine')", "ended"),
    ],
)
def test_how_it_ended_is_told(source, status, sandbox):
    outcome = sandbox.run(source, limits=replace(TIGHT, cpu=8.0, wall=10.0))
    assert outcome.status == status, outcome
    assert len(outcome.stdout) <= TIGHT.output
    assert sandbox.run("print('well')").text == "well\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other numbers of system calls exist on x86 alone")
@pytest.mark.parametrize("number", [0x40000000 + 39, 0x40000000 + 57])
def test_calls_by_other_numbers_kill(number, sandbox):
    outcome = sandbox.run(f"import ctypes; print(ctypes.CDLL(None).syscall({number}))")
    assert outcome.status == "killed"


def children():
    found = []
    for thread in threading.enumerate():
        with contextlib.suppress(OSError, TypeError):
            found += Path(f"/proc/self/task/{thread.native_id}/children").read_text().split()
    return set(found)


def test_nothing_survives(sandbox, world):
    """No process, file or mount is left when all is closed."""
    mounts, folders = Path("/proc/mounts").read_text(), set(Path("/tmp").glob("covey-sandbox-*"))
    before = children()
    own = Sandbox(sandbox.level, workers=2, limits=TIGHT)
    for source in [OUTSIDE["daemon"][0], STUBBORN["loop that ignores signals"], "open('left', 'w').write('x')"]:
        own.run(text_of(source, world))
    assert children() > before
    own.close()
    assert children() == before
    assert Path("/proc/mounts").read_text() == mounts
    assert set(Path("/tmp").glob("covey-sandbox-*")) == folders
