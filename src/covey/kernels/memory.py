"""How the C library treats memory that was freed."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_TRIM, _MAP, _MOST = -1, -3, 2**31 - 1  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


def keep_freed_memory() -> bool:
    """Have freed memory stay with the process, for its next tensor; whether that could be done (glibc only).

    Else large tensors come from the system and go back to it, page by page: a tenth of a step's time on a CPU.
    """
    change = _of_glibc("mallopt")
    return change is not None and bool(change(_MAP, 1 << 30)) and bool(change(_TRIM, _MOST))


def give_back_freed_memory() -> bool:
    """Let go of what :func:`keep_freed_memory` kept; whether there was any.

    Between sampling and training, which need tensors of other sizes: what one leaves behind would lie beside the other.
    """
    trim = _of_glibc("malloc_trim")
    return trim is not None and bool(trim(0))


def _of_glibc(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
