"""The system calls that a confined program has left (seccomp): a list of what is allowed, all others fail."""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable

from covey.sandbox import kernel

# Operations of the filter's little machine (linux/bpf_common.h)
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NR, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data; arguments are 64 bits, low word first

COMPUTE = (
    "read", "write", "open", "close", "stat", "fstat", "lstat", "poll", "lseek", "mmap", "mprotect", "munmap", "brk",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "pread64", "pwrite64", "readv", "writev", "access", "pipe",
    "select", "sched_yield", "mremap", "msync", "mincore", "madvise", "dup", "dup2", "pause", "nanosleep",
    "getitimer", "alarm", "setitimer", "getpid", "sendfile", "exit", "uname", "fcntl", "flock", "fsync", "fdatasync",
    "ftruncate", "getdents", "getcwd", "chdir", "fchdir", "rename", "mkdir", "rmdir", "creat", "unlink", "readlink",
    "umask", "gettimeofday", "getrlimit", "getrusage", "sysinfo", "times", "getuid", "getgid", "geteuid", "getegid",
    "getppid", "getpgrp", "getgroups", "getresuid", "getresgid", "getpgid", "getsid", "sigaltstack", "arch_prctl",
    "gettid", "time", "futex", "sched_getaffinity", "epoll_create", "getdents64", "set_tid_address",
    "restart_syscall", "fadvise64", "clock_gettime", "clock_getres", "clock_nanosleep", "exit_group", "epoll_wait",
    "epoll_ctl", "openat", "mkdirat", "newfstatat", "unlinkat", "renameat", "readlinkat", "faccessat", "pselect6",
    "ppoll", "set_robust_list", "get_robust_list", "eventfd2", "epoll_create1", "dup3", "pipe2", "preadv", "pwritev",
    "getcpu", "renameat2", "getrandom", "membarrier", "copy_file_range", "statx", "rseq", "close_range", "faccessat2",
    "epoll_pwait", "epoll_pwait2", "fstatfs", "statfs",
)  # fmt: skip
"""What a program needs to compute and to use the files it is shown."""

COMMANDS = ("clone", "fork", "vfork", "execve", "wait4", "waitid", "setpgid", "sched_setaffinity", "setsid")
"""What compilers and interpreters of other languages need besides: other processes and threads."""

_TCGETS, _TIOCGWINSZ, _FIONREAD, _FIOCLEX, _FIONBIO = 0x5401, 0x5413, 0x541B, 0x5451, 0x5421
_PR_NAMES = (15, 16)  # set and get the thread's name
_NAMESPACES = 0x7E020080  # flags of clone that make namespaces


def allow_only(commands: bool) -> bytes:
    """The filter: calls of this machine's own kind from the list; ``commands`` adds other processes."""
    program = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, kernel.ARCHITECTURES[kernel.MACHINE], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NR),
    ]
    if kernel.MACHINE == "x86_64":
        program += [_step(0x35, 0x40000000, 0, 1), _step(_RETURN, _KILL)]  # x32 has other numbers
    program += _fails("clone3", errno.ENOSYS)  # its flags lie in memory; libraries then use clone
    for name in (*COMPUTE, *(COMMANDS if commands else ())):
        program += _allowed_with_no_namespace() if name == "clone" else _allowed(name)
    program += _allowed_if("ioctl", 1, (_TCGETS, _TIOCGWINSZ, _FIONREAD, _FIOCLEX, _FIONBIO))
    program += _allowed_if("prctl", 0, _PR_NAMES)
    program += _allowed_if("prlimit64", 0, (0,), ((2, 0),))  # its own, and only to read
    program.append(_step(_RETURN, _ERRNO | errno.EPERM))
    return b"".join(program)


def confine(commands: bool, own: int) -> None:
    """Install the filter in this process and all its children, for good; signals go to process ``own`` alone."""
    code = allow_only(commands)
    signals = b"".join([*_signals(own), code[-8:]]) if own else code[-8:]
    code = code[:-8] + signals
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    pointer = Program(len(code) // 8, ctypes.addressof(buffer))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.call("seccomp", 1, 0, ctypes.byref(pointer))


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _allowed(name: str) -> list[bytes]:
    wanted = kernel.number(name)
    return [] if wanted is None else [_step(_EQUAL, wanted, 0, 1), _step(_RETURN, _ALLOW)]


def _fails(name: str, code: int) -> list[bytes]:
    wanted = kernel.number(name)
    return [] if wanted is None else [_step(_EQUAL, wanted, 0, 1), _step(_RETURN, _ERRNO | code)]


def _allowed_if(name: str, argument: int, values: Iterable[int], also: Iterable[tuple[int, int]] = ()) -> list[bytes]:
    """Allowed where the low word of ``argument`` is one of ``values`` and others are what ``also`` says."""
    wanted, values = kernel.number(name), tuple(values)
    if wanted is None:
        return []
    body = []
    for place, value in also:
        for word in (0, 4):
            body += [_step(_LOAD, _ARGS + 8 * place + word), _step(_EQUAL, value, 1, 0)]
            body += [_step(_RETURN, _ERRNO | errno.EPERM)]
    body.append(_step(_LOAD, _ARGS + 8 * argument))
    for value in values:
        body += [_step(_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW)]
    body.append(_step(_RETURN, _ERRNO | errno.EPERM))
    return [_step(_EQUAL, wanted, 0, len(body)), *body]


def _allowed_with_no_namespace() -> list[bytes]:
    wanted = kernel.number("clone")
    assert wanted is not None
    body = [
        _step(_LOAD, _ARGS),
        _step(_ANY_BIT, _NAMESPACES, 1, 0),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _ERRNO | errno.EPERM),
    ]
    return [_step(_EQUAL, wanted, 0, len(body)), *body]


def _signals(own: int) -> list[bytes]:
    """A program may send signals to itself: ``raise`` and ``abort`` of the C library do."""
    return [step for name in ("kill", "tgkill", "tkill") for step in _allowed_if(name, 0, (own,))]
