"""What makes an end at any moment harmless: the private folder of a run, and results that take their place whole.

**The private folder** holds spilled rows, copies in clear and releases that nobody saved. It lies in the temporary
folder, only its owner may enter it, and it goes when the process ends, also by SIGTERM and SIGHUP, which become
SystemExit. A process that is killed outright leaves it behind; its name and a lock that died with the process let the
next run find it. docs/limitations.md says what that means.

**A result** is made in a folder beside its place, which goes when the run fails or ends, and takes its place by a
rename: it is there as a whole or not at all, and at most one of several runs gets the place.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from ..errors import ReleaseError

try:
    import fcntl
except ImportError:  # no such locks on this system: left-overs are not told from folders in use, and none is removed
    fcntl = None  # type: ignore[assignment]

NAME = "sfumato-scratch-"
LOCK = "lock"
_ATTEMPTS = 5  # another thread may still write into a folder that is being removed
_SIGNALLED = 128  # added to the number of a signal, as shells report an end by one

_folder: Path | None = None
_temporary: set[Path] = set()  # folders elsewhere that must not outlive the process either
_watching = False
_guard = threading.Lock()


def run_folder() -> Path:
    """The private folder of this process, made when first asked for."""
    global _folder  # noqa: PLW0603 - one folder for a process is the point
    with _guard:
        _watch()
        if _folder is None:
            # locked before it gets the name by which others look for left-overs
            _folder = Path(tempfile.mkdtemp(prefix="sfumato-new-"))
            lock = os.open(_folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)  # open until the process ends
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _folder = _folder.rename(_folder.with_name(f"{NAME}{os.getpid()}-{secrets.token_hex(8)}"))
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
def temporary(path: Path) -> Iterator[None]:
    """After the block, and when the process ends, this folder is gone."""
    with _guard:
        _watch()
        _temporary.add(path)
    try:
        yield
    finally:
        remove(path)
        _temporary.discard(path)


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


def remove(path: Path) -> None:
    """Remove a folder, even while another thread still writes into it."""
    for _ in range(_ATTEMPTS):
        with suppress(OSError):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                return


def clear() -> None:
    """Remove everything of this process that must not outlive it."""
    global _folder  # noqa: PLW0603
    for path in (*_temporary, *([_folder] if _folder else [])):
        remove(path)
    _folder = None


def _watch() -> None:
    """Clear when the process ends, also by a signal; handlers that others have set stay as they are."""
    global _watching  # noqa: PLW0603
    if not _watching:
        from multiprocessing.util import Finalize

        Finalize(None, clear, exitpriority=0)  # workers of multiprocessing end without atexit
        _watching = True
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number: signal.Signals | None = vars(signal).get(name)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _exit)


def _exit(number: int, _: object) -> NoReturn:
    raise SystemExit(_SIGNALLED + number)


def _forget() -> None:
    """In a process that was forked off: what the parent made is the parent's, and its threads hold no lock."""
    global _folder, _watching, _guard
    _folder, _watching, _guard = None, False, threading.Lock()
    _temporary.clear()


atexit.register(clear)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def place_folder(new: Path, out: Path, aside: Path, *, check: Callable[[Path, str], None] | None = None) -> None:
    """Move the finished folder `new` to `out`, on the disk; or leave all as it was and raise.

    With `check` it may replace a folder of which `check(folder, its name)` does not raise. For a moment the old folder
    lies in `aside`, where a kill between two renames leaves it whole.
    """
    replaces = check is not None and (out.exists() or out.is_symlink())
    try:
        if check is not None and replaces:
            check(out, out.name)
            out.rename(aside)
            check(aside, out.name)  # somebody may have put files there meanwhile
        _move(new, out)
        sync(out.parent)
    except BaseException:  # a name that is not on the disk may be gone tomorrow: as if nothing had been done
        _move_back(new, out, aside)
        raise
    if replaces:
        remove(aside)


def _move(new: Path, out: Path) -> None:
    """Rename `new` to `out`; ReleaseError where something is there, even since a moment ago."""
    try:
        out.mkdir()  # one winner: the empty folder is our claim, and a rename may replace it
    except FileExistsError:
        raise ReleaseError(f'"{out.name}" appeared while the release was made; it is not touched') from None
    try:
        new.rename(out)
    except BaseException:
        if new.exists():
            out.rmdir()
        raise


def _move_back(new: Path, out: Path, aside: Path) -> None:
    """Undo `place_folder`; where the disk refuses that too, ReleaseError says which folder lies where."""
    try:
        if out.exists() and not new.exists():
            out.rename(new)
        if aside.exists():
            _move(aside, out)
    except (OSError, ReleaseError):
        old = f'the old release is whole in "{aside.name}" beside it' if aside.exists() else ""
        if new.exists() or not out.exists():
            raise ReleaseError(f'"{out.name}" could not be put back, and nothing was published; {old}') from None
        unsure = "but it may be gone after a power failure: the disk does not answer"
        raise ReleaseError(f'"{out.name}" holds the new release, {unsure}{"; " if old else ""}{old}') from None


def check_free(files: Iterable[Path], *, force: bool) -> None:
    """Raise ReleaseError where one of the files exists that `force` does not let us replace."""
    for file in files:
        if file.is_dir() or ((file.exists() or file.is_symlink()) and not force):
            raise ReleaseError(f'"{file.name}" exists; choose another place, or say --force to replace a file')


def place_files(made: Sequence[Path], folder: Path, *, force: bool) -> None:
    """Move the files into the folder, the last one last; or none, where one exists since a moment ago."""
    finals = [folder / file.name for file in made]
    check_free(finals, force=force)
    for file, final in zip(made, finals, strict=True):
        file.replace(final)


def sync(path: Path) -> None:
    """Have the file, or the names in the folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
