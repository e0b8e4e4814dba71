"""Files of this machine: what the page lists to choose from, where an upload is kept, where a release may go."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from ...engines import scratch
from ...engines.files import kind_of
from ...errors import DataError, SfumatoError, SpecError

MOST_ENTRIES = 400
SPARE = 64 * 2**20  # bytes that stay free on the disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A folder as the page shows it."""

    folder: Path
    parents: tuple[Path, ...]  # from the root on
    folders: tuple[str, ...]
    files: tuple[tuple[str, int], ...]  # name, bytes
    left_out: int


def listing(folder: str) -> Listing:
    """Folders and tables in a folder; names that begin with a dot are left out."""
    place = Path(spelled(folder)).absolute() if folder else Path.cwd()
    try:
        found = sorted(place.iterdir(), key=lambda path: path.name.lower())
    except ValueError:
        raise DataError("the folder has a name that cannot be") from None
    except OSError as error:
        raise DataError(f'"{place.name or place}" cannot be listed: {error.strerror}') from None
    folders: list[str] = []
    files: list[tuple[str, int]] = []
    for path in found:
        if path.name.startswith("."):
            continue
        try:
            if path.is_dir():
                folders.append(path.name)
            elif _readable(path):
                files.append((path.name, path.stat().st_size))
        except OSError:
            continue  # a link to nowhere, or not ours to see
    more = max(0, len(folders) - MOST_ENTRIES) + max(0, len(files) - MOST_ENTRIES)
    return Listing(
        folder=place,
        parents=tuple(reversed(place.parents)),
        folders=tuple(folders[:MOST_ENTRIES]),
        files=tuple(files[:MOST_ENTRIES]),
        left_out=more,
    )


def spelled(path: str) -> str:
    """A path that begins with ~ as the shell would read it; any other as it is."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") and not exists(path) else path
    except RuntimeError:  # nobody of that name
        return path


def exists(path: str) -> bool:
    """Whether there is something at a path; SpecError where no path can be spelled so."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        return True  # whatever it is, it is not ours
    except (OSError, ValueError):
        raise SpecError("no file or folder can have this name", field="path") from None
    return True


def identity(path: Path) -> tuple[int, int] | None:
    """What stays the same when a folder is renamed; None where there is none."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def write_whole(path: Path, text: str) -> None:
    """Write a file at once, so that a reader finds the old one or the new one; a disk that refuses is let be."""
    place = path.resolve()
    fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(place)
    except OSError:
        fresh.unlink(missing_ok=True)


def _readable(path: Path) -> bool:
    """Whether the name is one of a table."""
    try:
        kind_of(path.name)
    except SfumatoError:
        return False
    return True


async def keep_upload(name: str, stream: AsyncIterator[bytes]) -> Path:
    """The file in a private folder of this process, which goes with it; only its owner may enter."""
    plain = Path(name.replace("\\", "/")).name
    if not plain or plain.startswith(".") or "\0" in plain or len(plain.encode()) > 200:
        raise SpecError("the file has no name that can be kept", field="name")
    kind_of(plain)
    folder = scratch.new_folder("upload")
    try:
        with (folder / plain).open("wb") as out:
            async for piece in stream:
                if shutil.disk_usage(folder).free < SPARE + len(piece):
                    raise DataError("the disk is full; the file was not kept")
                out.write(piece)
    except BaseException:
        scratch.remove(folder)
        raise
    return folder / plain


def forget_upload(source: str) -> None:
    """Remove the copy of an upload."""
    scratch.remove(Path(source).parent)


def proposed_release(source: str, *, upload: bool) -> str:
    """A new folder beside the table; beside nothing of ours where the table is an upload."""
    place = Path.cwd() if upload or "://" in source else Path(source).absolute().parent
    plain = source.partition("?")[0] if "://" in source else source
    stem = Path(plain).name.split(".")[0].rstrip(":") or "table"
    found, number = place / f"{stem}-release", 2
    while found.exists():
        found, number = place / f"{stem}-release-{number}", number + 1
    return str(found)


def partial_folders(out: str) -> set[Path]:
    """Half-written releases beside this place, whoever writes them."""
    place = Path(out)
    try:
        return {p for p in place.parent.iterdir() if p.name.startswith(f".{place.name}.") and p.suffix == ".partial"}
    except OSError:
        return set()
