"""A release in a zip archive, as `sfumato serve` hands it out: unpacked to the private folder, with limits."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path, PurePosixPath

from ..engines import scratch
from ..errors import ReleaseError

MOST_FILES = 10_000
MOST_RATIO = 100  # plain bytes for each that is read: Parquet and JSON are far below
FEW_BYTES = 1 << 20
PIECE = 1 << 20


def is_zip(path: Path) -> bool:
    """Whether the path is an archive, not a folder; not where nothing can be at such a path."""
    try:
        return path.suffix.lower() == ".zip" and path.is_file()
    except OSError:  # a name that is too long, a folder that may not be entered: told by who reads release.json
        return False


def unpacked(path: Path) -> Path:
    """A private folder with the files of the release in the archive; whoever asks for it removes it."""
    place = scratch.new_folder("release")
    try:
        with zipfile.ZipFile(path) as archive:
            names = _names(archive, path)
            left = max(FEW_BYTES, MOST_RATIO * path.stat().st_size)
            for entry, name in names.items():
                (place / name).parent.mkdir(exist_ok=True)
                with archive.open(entry) as source, (place / name).open("xb") as target:
                    while piece := source.read(PIECE):
                        left -= len(piece)
                        if left < 0:
                            raise ReleaseError(f'"{path.name}" unpacks to far more than it holds; it is not read')
                        target.write(piece)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        scratch.remove(place)
        raise ReleaseError(f'"{path.name}" is damaged, encrypted, or not a zip archive') from None
    except OSError as error:
        scratch.remove(place)
        raise ReleaseError(f'cannot unpack "{path.name}": {error.strerror}') from None
    except ReleaseError:
        scratch.remove(place)
        raise
    return place


def _names(archive: zipfile.ZipFile, path: Path) -> dict[zipfile.ZipInfo, PurePosixPath]:
    """Where each file goes: the release's own folder in the archive is left out, any other name is refused."""
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > MOST_FILES:
        raise ReleaseError(f'"{path.name}" holds {len(entries)} files; it is not read')
    roots = [PurePosixPath(e.filename).parent for e in entries if PurePosixPath(e.filename).name == "release.json"]
    if len(roots) != 1:
        raise ReleaseError(f'"{path.name}" holds {len(roots)} releases; it must hold one')
    found: dict[zipfile.ZipInfo, PurePosixPath] = {}
    for entry in entries:
        whole = PurePosixPath(entry.filename)
        if not whole.is_relative_to(roots[0]) or whole.is_absolute() or ".." in whole.parts or "\\" in entry.filename:
            raise ReleaseError(f'"{path.name}" holds a file outside the release; it is not read')
        name = whole.relative_to(roots[0])
        if len(name.parts) > 2 or name in found.values():
            raise ReleaseError(f'"{path.name}" holds files that no release has; it is not read')
        found[entry] = name
    return found
