"""Work that a signal must not divide: it is done, or was never begun; the signal comes again when it is over.

Names of files are not known yet to whoever would remove them, or a release is between two places.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Timer

AGAIN = 0.01  # seconds after which a signal that came in a bad moment comes again
# Python's own module first tries whether it can write; ours are short, and nothing that works for long is called there
FILES = tuple(
    name.replace("/", os.sep)
    for name in (
        "/tempfile.py",
        "/sfumato/engines/scratch.py",
        "/sfumato/release/placing.py",
        "/sfumato/reports/report_files.py",
        "/sfumato/publishing/roles_file.py",
    )
)


def undivided(frame: FrameType | None) -> bool:
    """Whether the frame, or one that has called it, is of such work."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(FILES):
            return True
        frame = frame.f_back
    return False


def later(number: int) -> Timer:
    """Who sends the signal to this process again."""
    from threading import Timer

    raised = signal.raise_signal if sys.platform == "win32" else partial(os.kill, os.getpid())  # it wakes sleepers
    timer = Timer(AGAIN, raised, [number])
    timer.daemon = True
    timer.start()
    return timer
