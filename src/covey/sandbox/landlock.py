"""What a confined program sees and changes of the file system, without any privilege (Landlock, Linux 5.13 on)."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

from covey.sandbox import kernel

_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_MAKE = 0x1FF0  # remove and make files, folders, links ... : bits 4 to 12
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_TCP = 3  # bind and connect
_SCOPED = 3  # abstract unix sockets, signals


def version() -> int:
    """Of the interface that this kernel has; 0 if it has none."""
    try:
        return kernel.call("landlock_create_ruleset", None, ctypes.c_size_t(0), 1)
    except OSError:
        return 0


def _files(abi: int) -> int:
    """All rights to files that this version can take away."""
    return 0x1FFF | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0) | (_IOCTL if abi >= 5 else 0)


def confine(readable: Iterable[str], writable: Iterable[str] = ()) -> None:
    """Leave this process and its children these trees and files and nothing else, for good. Raises OSError."""
    abi = version()
    if not abi:
        raise OSError("this kernel has no Landlock")
    attributes = (ctypes.c_uint64 * 3)(_files(abi), _TCP if abi >= 4 else 0, _SCOPED if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = kernel.call("landlock_create_ruleset", ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    try:
        for path in readable:
            _allow(rules, path, _EXECUTE | _READ | _READ_DIR)
        for path in writable:
            _allow(rules, path, _files(abi) & ~_IOCTL)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.call("landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    """A path that does not exist gives nothing."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= _OF_FILES

        class Rule(ctypes.Structure):
            _pack_ = 1
            _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))

        kernel.call("landlock_add_rule", rules, 1, ctypes.byref(Rule(rights, handle)), 0)
    finally:
        os.close(handle)
