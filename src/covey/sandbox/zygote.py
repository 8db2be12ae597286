"""A warm interpreter from which programs are forked, each into its own confinement. Standard library alone.

It is started afresh, never forked from the trainer, whose memory holds what programs must not see. One program at a
time; the other side keeps the clock and says when to kill.
"""

from __future__ import annotations

import array
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from covey.sandbox import driver, filter, kernel, landlock, namespaces

PRELOADED = (
    "array", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools",
    "heapq", "io", "itertools", "json", "math", "operator", "queue", "random", "re", "statistics", "string", "typing",
)  # fmt: skip
HANDLES = 5
FIRST_USER = 60_000
"""Programs of a sandbox that root starts run as this user, or one above."""


def main(handle: int, setup: Mapping[str, Any]) -> None:
    """Serve jobs that come over a socket until it closes, as it does when the other side is no more.

    A signal at the parent's death would come too early: it comes when the *thread* ends that started this process.
    """
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    control = socket.socket(fileno=handle)
    sys.path.extend(setup["paths"])
    for name in (*PRELOADED, *setup["modules"]):
        importlib.import_module(name)
    gc.freeze()
    control.send(b"ready")
    while True:
        data, ancillary, _, _ = control.recvmsg(1 << 16, socket.CMSG_SPACE(HANDLES * 4))
        if not data:
            return
        handles = array.array("i")
        for _, _, content in ancillary:
            handles.frombytes(content[: len(content) - len(content) % handles.itemsize])
        if not handles:
            continue  # a word to kill that came too late
        code = run_one(control, {**setup, **json.loads(data)}, list(handles))
        control.send(json.dumps({"code": code}).encode())


def run_one(control: socket.socket, job: Mapping[str, Any], handles: list[int]) -> int:
    """Fork, wait, and see that nothing is left. The exit code, or minus the signal."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        control.close()
        _first_child(job, handles, writing)
    os.close(writing)
    for handle in handles:
        os.close(handle)
    watched = os.pidfd_open(child)
    while watched not in select.select([watched, control], [], [])[0]:
        control.recv(16)  # whatever it says, it means kill; when the other side is gone, too
        os.kill(child, signal.SIGKILL)
    os.close(watched)
    _, status = os.waitpid(child, 0)
    told = os.read(reading, 16)
    os.close(reading)
    _kill_all_children()
    return int(told) if told and os.WIFEXITED(status) else os.waitstatus_to_exitcode(status)


def _kill_all_children() -> None:
    """Whoever outlived the program is a child of this process now."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            left = [int(pid) for pid in file.read().split()]
        if not left:
            return
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _first_child(job: Mapping[str, Any], handles: list[int], writing: int) -> None:
    """Confine and run the program; with namespaces in a child of its own, the first process of its world."""
    code = 70
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        _place(handles, writing)
        _drop_user(job["slot"])
        if job["level"] == "L1":
            namespaces.leave()
            inner = os.fork()
            if inner:
                _, status = os.waitpid(inner, 0)
                os.write(HANDLES, str(os.waitstatus_to_exitcode(status)).encode())
                os._exit(0)
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(HANDLES)
        code = _confined(job)
    except BaseException as error:
        os.write(2, f"sandbox: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _place(handles: list[int], writing: int) -> None:
    """The program's five handles at 0 to 4, what tells its end at 5, and nothing else open."""
    high = [os.dup(handle) for handle in (*handles, writing)]
    above = [os.dup2(handle, 100 + place) for place, handle in enumerate(high)]
    for place, handle in enumerate(above):
        os.dup2(handle, place)
    os.closerange(HANDLES + 1, 4096)


def _drop_user(slot: int) -> None:
    if os.getuid() == 0:
        user = FIRST_USER + slot
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _confined(job: Mapping[str, Any]) -> int:
    """Take everything away, in an order in which each step may still do the next, and run."""
    task, level = driver.read_frame(driver.QUESTIONS), job["level"]
    limits, shown = job["limits"], job["shown"]
    writable = []
    if level == "L1":
        namespaces.private_root(shown, job["place"], limits["scratch"])
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["tasks"], limits["tasks"]))
        kernel.drop_capabilities()
        writable = [namespaces.WORK]
    elif "argv" in task:
        os.chdir(job["place"])
        writable = [job["place"]]
    for name, value in (("AS", limits["memory"]), ("FSIZE", limits["file"]), ("NOFILE", limits["files"]), ("CORE", 0)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    seconds = max(1, round(limits["cpu"]))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    os.environ.clear()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if level in ("L1", "L2"):
        landlock.confine(shown, writable)
    if "argv" not in task:
        filter.confine(False, os.getpid())
        return driver.run(task)
    _write_files(task["files"])
    filter.confine(True, 0)
    os.closerange(3, HANDLES)
    return _become(task)


def _become(task: Mapping[str, Any]) -> NoReturn:
    here = os.getcwd()
    os.execve(task["argv"][0], task["argv"], {**task["environment"], "HOME": here, "TMPDIR": here})


def _write_files(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        with open(os.path.basename(name), "w") as file:
            file.write(text)
