"""Memory of a process that evaluates: arrays of the same sizes, made and dropped chunk after chunk."""

import ctypes
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of these settings in malloc.h of the GNU C library."""
LARGEST_B, KEPT_B = (1 << 30, 1 << 25), (1 << 31) - 1
"""Bytes of arrays that get pages of their own, or as many as older versions allow, and free bytes from which on pages
are given back."""


@cache
def keep_freed_memory() -> bool:
    """Have this process keep what it frees for the arrays to come; whether its C library knows how to.

    By default large arrays get pages of their own from the system, which clears them, and give them back: as much work
    as writing them. Where the C library has no such setting, evaluations take longer and give the same numbers.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(TRIM_THRESHOLD, KEPT_B)
    return bool(kept and any(mallopt(MMAP_THRESHOLD, size) for size in LARGEST_B))
