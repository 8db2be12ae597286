"""A world of its own for a program: no network, no other processes, a root folder with what it is shown."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterable

from covey.sandbox import kernel

_USER, _PID, _NET, _IPC, _UTS, _MOUNTS = 0x10000000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x00020000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_KEPT = {os.ST_NOSUID: _NOSUID, os.ST_NODEV: _NODEV, os.ST_NOEXEC: _NOEXEC, os.ST_NOATIME: 1024, os.ST_NODIRATIME: 2048}
_RELATIME = {os.ST_RELATIME: 1 << 21}
_DETACH = 2

WORK = "/sandbox"
"""The one folder that a program may write to."""


def leave() -> None:
    """Leave all namespaces of this process; its next child is the first of its own. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # after a change of user the files below belong to root
    kernel.libc("unshare", _USER | _PID | _NET | _IPC | _UTS | _MOUNTS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def private_root(shown: Iterable[str], place: str, scratch: int) -> None:
    """Make a root of these paths, read-only, and of an empty folder of ``scratch`` bytes, and go there.

    ``place`` is any empty folder. Raises OSError.
    """
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, "size=1m,nr_inodes=2048,mode=755")
    for path in shown:
        _show(path, place)
    os.mkdir(place + WORK)
    _mount("tmpfs", place + WORK, "tmpfs", _NOSUID | _NODEV, f"size={scratch},nr_inodes=1024,mode=777")
    _mount(None, place, None, _REMOUNT | _RDONLY | _NOSUID | _NODEV)
    os.chdir(place)
    kernel.call("pivot_root", b".", b".")
    kernel.libc("umount2", b".", _DETACH)
    os.chdir(WORK)


def _show(path: str, place: str) -> None:
    """The same path in the new root; what does not exist is left out."""
    target = place + path
    with contextlib.suppress(FileExistsError):
        os.makedirs(os.path.dirname(target))
    if os.path.islink(path):
        with contextlib.suppress(FileExistsError):
            os.symlink(os.readlink(path), target)
        return
    try:
        folder = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        return
    if folder:
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(path, target, None, _BIND | _REC)
    flags = os.statvfs(target).f_flag
    kept = sum(mount for known, mount in (_KEPT | _RELATIME).items() if flags & known)
    _mount(None, target, None, _BIND | _REMOUNT | _RDONLY | kept | _NOSUID)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    kernel.libc("mount", *texts, ctypes.c_ulong(flags), None if data is None else data.encode())
