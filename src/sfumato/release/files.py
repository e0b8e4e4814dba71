"""The files of a bundle, which may come from a stranger: the manifest, digests, columns, changes, zip archives."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..engines import scratch
from ..engines.batches import open_parquet
from ..engines.codes import Coder, arrow_type, part_numbers
from ..errors import ReleaseError, VerificationError
from ..model.types import ColumnType
from .manifest import MAX_MANIFEST, PARTS, Manifest, parse_manifest

MANIFEST, PACKAGE = "release.json", "datapackage.json"
SIDE, SETS = "sensitive.parquet", "sets.parquet"
LONGEST = 255  # letters of a name that are repeated: file systems have no longer ones
# Rows in random order, one of several values in each: a release has well above a tenth of a bit for every row. A file
# that claims more would fill the memory of whoever opens it.
ROWS_A_BYTE, FEW_ROWS = 64, 5_000_000
MOST_FILES = 10_000  # in an archive
MOST_RATIO = 100  # plain bytes for each that is read of an archive: Parquet and JSON are far below
MOST_EXTRA = 64  # bytes beside an entry: tools put times and owners there, and the sizes of long files
FEW_BYTES = 1 << 20
PIECE = 1 << 20  # bytes of an archive that are unpacked at a time
FileStates = Mapping[Path, tuple[int, ...] | None]  # file -> its state; None: not there


# --- the manifest and what it says about files -----------------------------------------------------------------------


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Errors of the Parquet library in the block become a ReleaseError: a file of a release may hold anything."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last: a column's name that is no text
        raise ReleaseError(f"{name} cannot be read; the release is damaged") from None


def read_manifest(folder: Path) -> Manifest:
    """release.json of the folder, within limits; every file it names is a plain file inside the folder."""
    path, name = folder / MANIFEST, folder.name[:LONGEST]
    try:
        if path.is_symlink() or not path.is_file():
            raise ReleaseError(f'"{name}" is not a release: it holds no release.json')
        if path.stat().st_size > MAX_MANIFEST:
            raise ReleaseError(f"release.json is larger than {MAX_MANIFEST // 10**6} MB; it is not read")
        manifest = parse_manifest(path.read_bytes())
    except OSError as error:
        raise ReleaseError(f'cannot read "{name}": {error.strerror}') from None
    data = manifest.data_files
    if not data:
        raise ReleaseError("release.json names no data.parquet")
    if "data.parquet" in data and len(data) > 1:
        raise ReleaseError("release.json names data.parquet and parts of it; a release has one or the other")
    if (folder / PARTS).is_symlink():
        raise ReleaseError(f"{PARTS} is not a plain folder of the release")
    for name in stated_digests(manifest):
        if (folder / name).is_symlink() or not (folder / name).is_file():
            raise ReleaseError(f"{name} is missing, or is not a plain file of the release")
    return manifest


def stated_digests(manifest: Manifest) -> dict[str, str]:
    """The SHA-256 that the manifest states for each Parquet file and each document for people."""
    files: dict[str, str] = {str(name): file.sha256 for name, file in manifest.files.items()}
    return files | {str(name): document.sha256 for name, document in (manifest.documents or {}).items()}


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb", buffering=0) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_digests(folder: Path, manifest: Manifest) -> None:
    """Refuse files that are not the ones the manifest describes."""
    for name, sha256 in stated_digests(manifest).items():
        with readable(name):
            found = digest(folder / name)
        if found != sha256:
            raise VerificationError(f"{name} is not the file that release.json describes: its digest differs")


def check_contents(folder: Path, manifest: Manifest) -> dict[str, pa.Schema]:
    """The columns of every Parquet file; refuses files whose rows are not those that the manifest states."""
    if any(column.name.startswith("__") for column in manifest.columns):
        raise ReleaseError('release.json lists a column that begins with "__", which no release has')
    schemas = dict[str, pa.Schema]()
    parts: set[str] = set()  # columns and types of the files that hold rows
    for name, stated in manifest.files.items():
        with readable(name):
            metadata = pq.read_metadata(folder / name)
            schema = schemas[name] = metadata.schema.to_arrow_schema()
        folded = [column.lower() for column in schema.names]
        if len(set(folded)) < len(folded):  # readers differ in which of them they take, and in minding case
            raise VerificationError(f"{name} has a column twice, or two whose names differ in case only")
        if metadata.num_rows > max(FEW_ROWS, ROWS_A_BYTE * (folder / name).stat().st_size):
            raise ReleaseError(
                f"{name} claims {metadata.num_rows} rows in a file far too small for them; it is not read"
            )
        if metadata.num_rows != stated.rows:
            raise ReleaseError(f"{name} has {metadata.num_rows} rows, release.json states {stated.rows}")
        if name in manifest.data_files:
            parts.add(str([(field.name, str(field.type)) for field in schema]))
    if len(parts) > 1:
        raise ReleaseError("the files that hold the rows have different columns")
    if manifest.rows != sum(manifest.files[name].rows for name in manifest.data_files):
        raise ReleaseError("release.json states two different numbers of rows")
    return schemas


# --- columns and their types; no row is read --------------------------------------------------------------------------


def check_stated(schemas: Mapping[str, pa.Schema], expected: Mapping[str, Mapping[str, ColumnType]]) -> None:
    """Refuse files whose columns are not the expected ones."""
    for name, schema in schemas.items():
        if name not in expected:
            raise VerificationError(f"{name} is no file of a release of this method")
        if set(schema.names) != set(expected[name]):
            raise VerificationError(f"the columns of {name} are not the ones release.json states")
        for field in schema:
            if written_family(field.type) != written_family(arrow_type(expected[name][field.name])):
                raise VerificationError(f'"{field.name}" of {name} is not of the type that release.json states')
    missing = sorted(set(expected) - set(schemas))
    if missing:
        raise VerificationError(f"release.json names no {missing[0]}, which a release of this method has")


def written_family(kind: pa.DataType) -> str:
    """Types that Parquet writes alike have one name."""
    if pa.types.is_dictionary(kind):
        return written_family(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "bytes"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "zoned timestamp"
    if pa.types.is_temporal(kind):
        return str(kind).partition("[")[0]
    if pa.types.is_decimal(kind):
        return f"decimal {kind.scale}"
    return str(kind)


# --- sensitive.parquet -----------------------------------------------------------------------------------------------


def read_side(path: Path, coders: Sequence[Coder], part: str | None, rows: int) -> dict[str, NDArray[Any]]:
    """The columns of sensitive.parquet; those of a unit come as codes under "unit0", "unit1" ...

    ReleaseError where the file cannot be read, or its groups, whose numbers are in the column `part`, are not listed
    one after the other; DataError where it holds values outside their domain. `rows` is the size of the release.
    """
    with readable(SIDE), open_parquet(path) as file:
        table = file.read()
    columns = dict(zip(table.column_names, table.columns, strict=True))
    found: dict[str, NDArray[Any]] = {}
    for u, coder in enumerate(coders):
        if set(coder.domain.columns) <= set(columns):
            codes = coder.encode([columns.pop(name) for name in coder.domain.columns])
            found[f"unit{u}"] = codes.astype(np.min_scalar_type(len(coder.domain)))
    for name, column in columns.items():
        if name == part:
            found[name] = part_numbers(column, rows)
            if (found[name][1:] < found[name][:-1]).any():
                raise ReleaseError(f"{SIDE} does not list its groups one after the other; the release is damaged")
        else:
            plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            found[name] = plain.to_numpy()
    return found


# --- files that change while a release is open ------------------------------------------------------------------------


def file_states(files: Iterable[Path]) -> FileStates:
    """What changes with each file; None where there is none.

    The last number is set by the system alone, so that somebody who restores size and time is seen by it.
    """
    found: dict[Path, tuple[int, ...] | None] = {}
    for file in files:
        try:
            now = file.stat()
            found[file] = now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns
        except (OSError, ValueError):
            found[file] = None
    return found


def check_states(before: FileStates) -> None:
    """Raise VerificationError unless every file is the one that was there when a release was opened.

    Rows are read by name whenever a question needs them, so the states are compared before and after each question:
    the answer is then of the files whose digests were checked. A comparison takes a few microseconds.
    """
    for file, now in file_states(before).items():
        if now != before[file]:
            done = "is gone" if now is None else "changed"
            raise VerificationError(f"{file.name} {done} since the release was opened; open it again")


# --- a release in a zip archive, as `sfumato serve` hands it out ------------------------------------------------------


def unpack(path: Path) -> Path:
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
    if archive.comment or any(entry.comment or len(entry.extra) > MOST_EXTRA for entry in archive.infolist()):
        raise ReleaseError(f'"{path.name}" carries comments, which no release has; it is not read')
    roots = [PurePosixPath(e.filename).parent for e in entries if PurePosixPath(e.filename).name == MANIFEST]
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
