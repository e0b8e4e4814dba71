"""What a process that is forked off must not inherit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def at_fork(*, before: Callable[[], None] | None = None, in_child: Callable[[], None] | None = None) -> None:
    """Nothing; whenever a process is forked off, one is called before it, the other in it."""
    if sys.platform != "win32":  # where nothing is forked
        if before is not None:
            os.register_at_fork(before=before)
        if in_child is not None:
            os.register_at_fork(after_in_child=in_child)
