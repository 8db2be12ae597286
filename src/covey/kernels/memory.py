"""How the C library treats memory that was freed."""

from __future__ import annotations

import ctypes
import sys

_TRIM, _MAP, _MOST = -1, -3, 2**31 - 1  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


def keep_freed_memory() -> bool:
    """Have freed memory stay with the process, for its next tensor; whether that could be done (glibc only).

    Else large tensors come from the system and go back to it, page by page: a tenth of a step's time on a CPU.
    """
    if not sys.platform.startswith("linux"):
        return False
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    return change is not None and bool(change(_MAP, 1 << 30)) and bool(change(_TRIM, _MOST))
