"""Memory of this process."""

from __future__ import annotations

import math
import sys


def peak_memory() -> float:
    """Peak resident memory in MiB; NaN where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return math.nan
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 / 1024 if sys.platform == "darwin" else peak / 1024
