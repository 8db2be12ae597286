"""System calls that Python has no function for. Linux on x86_64 and aarch64; imports the standard library alone."""

from __future__ import annotations

import ctypes
import os
import platform

_LIBC = ctypes.CDLL(None, use_errno=True)

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Names of the audit subsystem, which system call filters check."""

MACHINE = platform.machine()

# Names in both tables; numbers of x86_64, then of aarch64 (None: it does not exist there).
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "open": (2, None), "close": (3, 57), "stat": (4, None), "fstat": (5, 80),
    "lstat": (6, None), "poll": (7, None), "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226),
    "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "ioctl": (16, 29), "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65),
    "writev": (20, 66), "access": (21, None), "pipe": (22, None), "select": (23, None), "sched_yield": (24, 124),
    "mremap": (25, 216), "msync": (26, 227), "mincore": (27, 232), "madvise": (28, 233), "dup": (32, 23),
    "dup2": (33, None), "pause": (34, None), "nanosleep": (35, 101), "getitimer": (36, 102), "alarm": (37, None),
    "setitimer": (38, 103), "getpid": (39, 172), "sendfile": (40, 71), "clone": (56, 220), "fork": (57, None),
    "vfork": (58, None), "execve": (59, 221), "exit": (60, 93), "wait4": (61, 260), "kill": (62, 129),
    "uname": (63, 160), "fcntl": (72, 25), "flock": (73, 32), "fsync": (74, 82), "fdatasync": (75, 83),
    "truncate": (76, 45), "ftruncate": (77, 46), "getdents": (78, None), "getcwd": (79, 17), "chdir": (80, 49),
    "fchdir": (81, 50), "rename": (82, None), "mkdir": (83, None), "rmdir": (84, None), "creat": (85, None),
    "link": (86, None), "unlink": (87, None), "symlink": (88, None), "readlink": (89, None), "umask": (95, 166),
    "gettimeofday": (96, 169), "getrlimit": (97, 163), "getrusage": (98, 165), "sysinfo": (99, 179),
    "times": (100, 153), "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177),
    "getppid": (110, 173), "getpgrp": (111, None), "setsid": (112, 157), "getgroups": (115, 158),
    "getresuid": (118, 148), "getresgid": (120, 150), "getpgid": (121, 155), "getsid": (124, 156),
    "sigaltstack": (131, 132), "prctl": (157, 167), "arch_prctl": (158, None), "gettid": (186, 178),
    "tkill": (200, 130), "time": (201, None), "futex": (202, 98), "sched_setaffinity": (203, 122),
    "sched_getaffinity": (204, 123), "epoll_create": (213, None), "getdents64": (217, 61),
    "set_tid_address": (218, 96), "restart_syscall": (219, 128), "fadvise64": (221, 223),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "exit_group": (231, 94), "epoll_wait": (232, None), "epoll_ctl": (233, 21), "tgkill": (234, 131),
    "waitid": (247, 95), "openat": (257, 56), "mkdirat": (258, 34), "newfstatat": (262, 79), "unlinkat": (263, 35),
    "renameat": (264, 38), "linkat": (265, 37), "symlinkat": (266, 36), "readlinkat": (267, 78),
    "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73), "set_robust_list": (273, 99),
    "get_robust_list": (274, 100), "fallocate": (285, 47), "eventfd2": (290, 19), "epoll_create1": (291, 20),
    "dup3": (292, 24), "pipe2": (293, 59), "preadv": (295, 69), "pwritev": (296, 70), "prlimit64": (302, 261),
    "getcpu": (309, 168), "renameat2": (316, 276), "seccomp": (317, 277), "getrandom": (318, 278),
    "membarrier": (324, 283), "copy_file_range": (326, 285), "statx": (332, 291), "rseq": (334, 293),
    "clone3": (435, 435), "close_range": (436, 436), "faccessat2": (439, 439), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441), "fstatfs": (138, 44), "statfs": (137, 43), "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446), "capset": (126, 91),
    "pivot_root": (155, 41), "setpgid": (109, 154),
}  # fmt: skip


def number(name: str) -> int | None:
    """Of a system call on this machine; None if it has none of that name."""
    return _NUMBERS[name][0 if MACHINE == "x86_64" else 1]


def call(name: str, *args: object) -> int:
    """A system call's result. Raises OSError."""
    wanted = number(name)
    assert wanted is not None, name
    return _checked(_LIBC.syscall(ctypes.c_long(wanted), *args), name)


def libc(name: str, *args: object) -> int:
    """A function of the C library that reports errors by errno. Raises OSError."""
    return _checked(getattr(_LIBC, name)(*args), name)


def _checked(result: int, name: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 38, 36


def prctl(option: int, value: int = 0) -> None:
    """Raises OSError."""
    libc("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def drop_capabilities() -> None:
    """All of them, for good."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
