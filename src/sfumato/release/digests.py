"""SHA-256 of files; of those that a command will ask for, begun while its code is still being loaded."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import mmap
from threading import Event, Lock, Thread

from ..engines.forks import at_fork

PIECE = 1 << 20  # bytes at a time
LARGE_PIECE = 1 << 23  # ... beside loading code, for which this thread waits after each
Place = str | os.PathLike[str]
State = tuple[int, int, int, int, int]

_begun: dict[str, Begun] = {}  # by absolute path
_free, _holding, _lock = Event(), list[object](), Lock()
_free.set()


class Begun:
    """The digest of a file in the state that it had; a thread is at it."""

    def __init__(self, path: str) -> None:
        self._path, self.state, self._found = path, state(path), ""
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):
            self._found = _digest(self._path, LARGE_PIECE)

    def result(self) -> str:
        """In hexadecimal; nothing where the file could not be read."""
        self._thread.join()
        return self._found


def begin(path: Place) -> None:
    """Nothing; the digest is being computed, if that is a file. What is wrong with it is told by who needs it."""
    place = os.path.abspath(path)  # noqa: PTH100 - pathlib is not loaded yet
    with suppress(OSError, ValueError):  # the last: a name with a zero byte
        if stat.S_ISREG(os.stat(place).st_mode):  # noqa: PTH116 - as above
            _begun[place] = Begun(place)


def digest(path: Place) -> str:
    """SHA-256 of the file, in hexadecimal."""
    begun = _begun.pop(os.path.abspath(path), None)  # noqa: PTH100 - as above
    found = begun.result() if begun is not None and begun.state == state(path) else ""
    return found or _digest(path)


@contextmanager
def held_up() -> Iterator[None]:
    """While the block works, no digest goes on: more waits for what the block does, and digests are needed last."""
    me = object()
    with _lock:
        _holding.append(me)
        _free.clear()
    try:
        yield
    finally:
        with _lock:
            _holding.remove(me)
            if not _holding:
                _free.set()


def _digest(path: Place, most: int = PIECE) -> str:
    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as handle:  # noqa: PTH123 - as above
        room = max(1, min(most, os.fstat(handle.fileno()).st_size))
        piece = memoryview(mmap(-1, room))  # a bytearray would be filled with zeros, for which everybody else waits
        while size := handle.readinto(piece):
            found.update(piece[:size])
            _free.wait()
    return found.hexdigest()


def state(path: Place) -> State:
    """What changes with the file. The last is set by the system alone: who restores size and time is seen by it."""
    now = os.stat(path)  # noqa: PTH116 - as above
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _let_go() -> None:
    """Nothing; digests go on in a process that was forked off: whoever holds them up stayed in the parent."""
    global _free, _lock
    _free, _lock = Event(), Lock()
    _holding.clear()
    _free.set()


at_fork(in_child=_let_go)
