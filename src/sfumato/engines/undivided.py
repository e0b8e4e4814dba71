"""Work that a signal must not divide: it is done, or was never begun; the signal comes again when it is over.

Names of files are not known yet to whoever would remove them, or a release is between two places.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from _thread import start_new_thread
from collections.abc import Callable
from types import FrameType

AGAIN = 0.01  # seconds after which a signal that came in a bad moment comes again
# Python's own module first tries whether it can write; ours are short, and nothing that works for long is called there
FILES = tuple(
    name.replace("/", os.sep)
    for name in (
        "/tempfile.py",
        "/sfumato/engines/scratch.py",
        "/sfumato/release/placing.py",
        "/sfumato/reports/report_files.py",
        "/sfumato/publishing/files.py",
    )
)


def undivided(frame: FrameType | None) -> bool:
    """Whether the frame, or one that has called it, is of such work."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(FILES):
            return True
        frame = frame.f_back
    return False


def later(number: int) -> Callable[[], object]:
    """What takes it back that the signal comes to this process again.

    By a bare thread: a `threading.Timer` would wait for locks that the interrupted work may hold.
    """
    wanted = [number]

    def again() -> None:
        time.sleep(AGAIN)
        for taken in wanted:
            if sys.platform == "win32":
                signal.raise_signal(taken)
            else:
                os.kill(os.getpid(), taken)  # it wakes sleepers

    start_new_thread(again, ())
    return wanted.clear
