"""A finished folder takes its place: at most one of several runs gets it, and what was there is whole or untouched."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..engines import scratch
from ..errors import ReleaseError, SpecError

MAX_MANIFEST = 8_000_000  # bytes of release.json; whoever reads a stranger's stops here
OWN_FILES = frozenset(
    {"release.json", "datapackage.json", "release.sig", "README.md"}
)  # besides those that release.json lists
PARTS = "data"  # folder of the part files
_NOREPLACE, _EXCHANGE = 1, 2  # of renameat2(2)
_AT_FDCWD = -100
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}  # what old kernels and some file systems say


def check_place(out: Path) -> None:
    """Refuse a place that cannot be written, and one inside another release, which would no longer verify."""
    try:
        str(out).encode()
        os.lstat(out)
    except FileNotFoundError:
        pass
    except UnicodeEncodeError:
        raise ReleaseError(f'"{out.name}" is not a name in UTF-8; choose another place') from None
    except NotADirectoryError:
        raise ReleaseError(f'cannot write "{out.name}": it would lie inside a file') from None
    except (OSError, ValueError):  # too long, or with a zero byte
        raise ReleaseError(f'"{out.name[:40]}" is not a name that a folder can have; choose another place') from None
    around = next((f for f in Path(os.path.realpath(out.parent), out.name).parents if _declared(f) is not None), None)
    if around is not None:
        raise ReleaseError(f'"{out.name}" would lie inside the release "{around.name}"; choose another place')


def check_apart(out: Path, sources: Iterable[Path]) -> None:
    """Refuse an output that would replace a source, or lie in the folder that is read."""
    check_place(out)
    for path in sources:
        read, written = (Path(os.path.realpath(p)) for p in (path, out))  # a loop of links is no error here
        if written == read or read in written.parents or written in read.parents:
            raise SpecError(f'"{out.name or out}" and the source lie in each other; choose another place', field="out")


def put(new: Path, out: Path, aside: Path, *, force: bool, placed: Callable[[], None] | None = None) -> None:
    """`new` is in the place `out`, on the disk, and what `force` lets it replace is gone; or all is as before."""
    replaces = force and (out.exists() or out.is_symlink())
    if replaces:
        replace(new, out, aside)
    else:
        move_in(new, out)
    try:
        sync(out.parent)
    except BaseException:  # a name that is not on the disk may be gone tomorrow: as if nothing had been done
        take_back(out, new, aside if replaces else None)
        raise
    if placed is not None:
        placed()
    scratch.remove(aside)


def check_free(files: Iterable[Path], *, force: bool) -> None:
    """Nothing; ReleaseError where one of the files exists that `force` does not let us replace."""
    for file in files:
        if file.is_dir() or ((file.exists() or file.is_symlink()) and not force):
            raise ReleaseError(f'"{file.name}" exists; choose another place, or say --force to replace a file')


def put_files(made: Sequence[Path], folder: Path, *, force: bool, placed: Callable[[], None] | None = None) -> None:
    """The files are in the folder, the last one last; or none is, where one exists since a moment ago."""
    finals = [folder / file.name for file in made]
    check_free(finals, force=force)
    for file, final in zip(made, finals, strict=True):
        file.replace(final)
    if placed is not None:
        placed()


def sync(path: Path) -> None:
    """Nothing; the file, or the names in the folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def move_in(new: Path, out: Path) -> None:
    """Rename `new` to `out`; ReleaseError where something is there, even since a moment ago."""
    try:
        if not _rename_with(_NOREPLACE, new, out):
            out.mkdir()  # one winner: the empty folder is our claim, and a rename may replace it
            try:
                new.rename(out)
            except OSError:
                out.rmdir()
                raise
    except FileExistsError:
        raise ReleaseError(f'"{out.name}" appeared while the release was made; it is not touched') from None


def replace(new: Path, out: Path, aside: Path) -> None:
    """Put `new` in the place of the release in `out`, which goes to `aside`; where that fails `out` is as before."""
    check_replaceable(out)
    if _rename_with(_EXCHANGE, new, out):  # at every moment one of the two is there
        try:
            check_replaceable(new, out.name)  # somebody may have put files there meanwhile
            new.rename(aside)
        except (OSError, ReleaseError):
            try:
                _rename_with(_EXCHANGE, new, out)
            except OSError:
                raise ReleaseError(_what_is_left(out, None)) from None
            raise
        return
    out.rename(aside)
    try:
        check_replaceable(aside, out.name)
        move_in(new, out)
    except (OSError, ReleaseError):
        try:
            move_in(aside, out)
        except (OSError, ReleaseError):
            raise ReleaseError(f'"{out.name}" could not be put back; it is whole in "{aside.name}" beside it') from None
        raise


def take_back(out: Path, new: Path, aside: Path | None) -> None:
    """Undo `move_in` (no `aside`) or `replace`: `out` goes back to `new`, what lies in `aside` takes its place again.

    Where the disk refuses that too, the error says what is in `out` and where the old release is.
    """
    try:
        if aside is not None and _rename_with(_EXCHANGE, aside, out):
            shutil.rmtree(aside, ignore_errors=True)  # the new one, by now
            return
        out.rename(new)
        if aside is not None:
            aside.rename(out)
    except OSError:
        raise ReleaseError(_what_is_left(out, aside)) from None


def _what_is_left(out: Path, aside: Path | None) -> str:
    """After a move and its undoing have both failed: the truth about both releases."""
    if aside is None or not aside.exists():
        return f'"{out.name}" holds the new release, but it may be gone after a power failure: the disk does not answer'
    old = f'the old release is whole in "{aside.name}" beside it'
    if out.exists():
        return f'"{out.name}" holds the new release, but the disk does not answer; {old}'
    return f'"{out.name}" could not be put back, and nothing was published; {old}'


def check_replaceable(out: Path, name: str = "") -> None:
    """Refuse to replace anything but a release, and a folder that holds more than the release."""
    name = name or out.name
    if out.is_symlink() or not out.is_dir():
        raise ReleaseError(f'"{name}" exists and is not a folder; it is not replaced')
    declared = _declared(out)
    if declared is None:
        raise ReleaseError(f'"{name}" exists and is not a release; it is not replaced')
    parts = out / PARTS if any(name.startswith(f"{PARTS}/") for name in declared) else None
    inside = [f for f in out.iterdir() if f != parts]
    if parts is not None and parts.is_dir() and not parts.is_symlink():
        inside += parts.iterdir()
    names = ((str(f.relative_to(out)), f) for f in inside)
    foreign = sorted(name for name, f in names if name not in declared or f.is_symlink() or not f.is_file())
    if foreign:
        raise ReleaseError(f'"{name}" holds "{foreign[0]}", which is no part of the release; it is not replaced')


def _declared(folder: Path) -> set[str] | None:
    """Names of the files that belong to the release in the folder; None where there is no release."""
    try:
        path = folder / "release.json"
        if path.is_symlink() or path.stat().st_size > MAX_MANIFEST:
            return None
        stated: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(stated, dict) or stated.get("format") != "sfumato-release":
        return None
    files = stated.get("files")
    return {*OWN_FILES, *(files if isinstance(files, dict) else ())}


def _rename_with(flag: int, old: Path, new: Path) -> bool:
    """Rename with a flag of Linux; False where the system cannot."""
    call = _renameat2()
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number))


@cache
def _renameat2() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return call
