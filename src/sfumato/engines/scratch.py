"""The one private folder of a run: spilled rows, copies in clear, releases that nobody saved.

It lies in the temporary folder, only its owner may enter it, and it goes when the process ends or is told to end
(SIGTERM, SIGHUP, Ctrl-C). A process that is killed outright leaves it behind; its name and a lock that died with the
process let the next run find it. docs/limitations.md says what that means.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from .undivided import later, undivided

try:
    import fcntl
except ImportError:  # no such locks on this system: left-overs are not told from folders in use, and none is removed
    fcntl = None  # type: ignore[assignment]

NAME = "sfumato-scratch-"
LOCK = "lock"
_ATTEMPTS = 5  # another thread may still write into a folder that is being removed

_folder: Path | None = None
_owner: int | None = None
_lock: int | None = None
_doomed: set[Path] = set()  # folders elsewhere that must not outlive an ended process either
_guard = threading.Lock()


def run_folder() -> Path:
    """The private folder of this process, made when first asked for."""
    global _folder, _lock  # noqa: PLW0603 - one folder for a process is the point
    with _guard:
        _own()
        if _folder is None:
            # locked before it gets the name by which others look for left-overs
            made = Path(tempfile.mkdtemp(prefix="sfumato-new-"))
            _lock = os.open(made / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            if fcntl is not None:
                fcntl.flock(_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _folder = made.rename(made.with_name(f"{NAME}{os.getpid()}-{secrets.token_hex(8)}"))
        return _folder


def new_folder(kind: str) -> Path:
    """A new folder inside the private one; whoever asks for it removes it."""
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=run_folder()))


@contextmanager
def folder(kind: str) -> Iterator[Path]:
    """A new folder inside the private one that is gone after the block."""
    made = new_folder(kind)
    try:
        yield made
    finally:
        remove(made)


def link(file: Path) -> Path:
    """A name for the file without any character that a pattern of file names gives a meaning to."""
    made = run_folder() / secrets.token_hex(8)
    made.symlink_to(file.absolute())
    return made


@contextmanager
def doomed(path: Path) -> Iterator[None]:
    """After the block, and after an end by a signal, this folder is gone."""
    with _guard:
        _own()
        _doomed.add(path)
    try:
        yield
    finally:
        remove(path)
        _doomed.discard(path)


def left_overs() -> tuple[Path, ...]:
    """Private folders of this user's runs that were killed: nobody holds their lock any more."""
    if fcntl is None:
        return ()
    found = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{NAME}*")):
        with suppress(OSError):  # somebody else's, or gone by now
            if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.getuid():
                continue
            handle = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(path)
            finally:
                os.close(handle)
    return tuple(found)


def remove_left_overs() -> int:
    """Remove the folders of killed runs; how many."""
    found = left_overs()
    for path in found:
        remove(path)
    return len(found)


def clear() -> None:
    """Remove everything of this run that must not outlive it."""
    global _folder  # noqa: PLW0603
    if _owner == os.getpid():  # not in a child that was forked off
        for path in (*_doomed, *([_folder] if _folder else [])):
            remove(path)
        _folder = None


def remove(path: Path) -> None:
    """Remove a folder, even while another thread still writes into it."""
    for _ in range(_ATTEMPTS):
        with suppress(OSError):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                return


def _own() -> None:
    """What a parent process owns is not ours; what we own goes with us."""
    global _folder, _owner
    if _owner != os.getpid():
        _folder, _owner = None, os.getpid()
        _doomed.clear()
        from multiprocessing.util import Finalize

        Finalize(None, clear, exitpriority=0)  # workers of multiprocessing end without atexit
    _watch_signals()


def _end(number: int, frame: FrameType | None) -> None:
    """Leave nothing behind, then end as the signal would have ended us."""
    if undivided(frame):
        later(number)
        return
    clear()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _watch_signals() -> None:
    """Where a signal would end the process at once, clean up first; handlers of others stay as they are."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGHUP"):
        number: signal.Signals | None = vars(signal).get(name)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _let_go() -> None:
    """Nothing; in a process that was forked off no thread of the parent holds the lock."""
    global _guard  # noqa: PLW0603
    _guard = threading.Lock()


atexit.register(clear)
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing is forked
    os.register_at_fork(after_in_child=_let_go)
