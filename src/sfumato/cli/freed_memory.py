"""Memory that a command gives up and takes again, batch after batch, stays with the process."""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # numbers of the C library's settings
NEVER, AT_ONCE = 1 << 30, 1 << 24  # bytes


def keep_freed_memory() -> None:
    """Nothing; where the C library can be asked to, it keeps freed memory instead of returning it to the system.

    Else every array of some hundred kilobytes is new to the process, and clearing its pages takes as long as filling
    it (docs/performance.md). Only for a process of our own: the setting holds for all of it.
    """
    try:
        setting = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    for name, value in ((MMAP_THRESHOLD, NEVER), (TRIM_THRESHOLD, NEVER), (TOP_PAD, AT_ONCE)):
        setting(name, value)
