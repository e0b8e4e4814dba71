"""Files that a source stands for: which they are, whether they are one table, how they are packed, private copies.

Nothing is guessed, nothing left out in silence.
"""

from __future__ import annotations

import codecs
import glob as globbing
import io
import os
import re
import sys
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ..errors import DataError, ReleaseError, SfumatoError
from . import scratch
from .source import Source, address_of

SUFFIXES = {
    "csv": (".csv", ".tsv", ".tab", ".txt"),
    "json": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "ipc": (".arrow", ".feather", ".ipc"),
    "orc": (".orc",),
    "excel": (".xlsx", ".xls", ".xlsb", ".ods"),
    "statistics": (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"),
}
SAID = {
    "csv": "CSV",
    "json": "JSON lines",
    "parquet": "Parquet",
    "ipc": "Arrow IPC",
    "orc": "ORC",
    "excel": "Excel",
    "statistics": "SPSS, Stata or SAS",
}
PACKED = (".gz", ".zst", ".zip")  # of CSV and JSON lines
_KINDS = {suffix: kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes}
MOST_DIGITS = 38
_FOLDERS = "give the files themselves, for example as folder/*.parquet"
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zip": "zip"}
PLAIN = "none"
BEGINNINGS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "a zip archive or workbook"}
ZIPPED_HIDDEN = ("__MACOSX/", ".")
PIECE = 1 << 20
OPTIONS = ("delimiter", "encoding", "null", "decimal", "dates", "table", "query", "types")  # fields of a Source
_TAKEN = {  # by what is read; anything else takes types only
    "csv": ("delimiter", "encoding", "null", "decimal", "dates", "types"),
    "excel": ("table", "types"),
    "statistics": ("encoding", "types"),
    "database": ("table", "query", "types"),
}
_GO_WITH = {
    "encoding": "is for files of text",
    "table": "goes with a database or a workbook",
    "query": "goes with the address of a database",
}
# First bytes of the files that are read, and the ending that stands for them; anything else is CSV or JSON lines.
SIGNS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"ORC": ".orc",
    b"\x1f\x8b": ".csv.gz",
    b"\x28\xb5\x2f\xfd": ".csv.zst",
    b"$FL2": ".sav",
    b"$FL3": ".zsav",
}

_kept: list[object] = []  # the copy stays until the process ends


def files_of(path: str) -> list[str]:
    """The files that a path, folder or glob stands for, sorted. A path that exists is that path."""
    try:
        if Path(path).is_dir():
            return _inside(Path(path))
        if Path(path).exists():
            _check_plain(path)
            return [path]
        files = sorted(globbing.glob(path, recursive=True)) if globbing.has_magic(path) else []  # noqa: PTH207 - absolute too
    except (OSError, ValueError):
        files = []
    if not files:
        raise DataError(f"there is no file {shown(path)}")
    for file in files:
        _check_plain(file)
    return files


def _check_plain(file: str) -> None:
    """Refuse what cannot be read, or not twice, or holds nothing, and names that libraries do not take."""
    try:
        file.encode()
    except UnicodeEncodeError:
        raise DataError(f"{shown(file)} has a name that is not UTF-8; rename it") from None
    if not Path(file).is_file():  # a pipe would be waited for, and is gone after the first of two passes
        raise DataError(f"{shown(file)} is no plain file; copy what it gives into one")
    try:
        with Path(file).open("rb") as handle:
            if not handle.read(1):
                raise DataError(f"{shown(file)} is empty")
    except OSError as error:
        raise DataError(f"cannot read {shown(file)}: {error.strerror}") from None


def _inside(folder: Path) -> list[str]:
    """The files of a table below a folder; what might be meant as a part of it and is not read is refused."""
    found, keys = [], set()
    kinds: dict[str, str] = {}  # kind -> a file of it
    for place, folders, names in os.walk(folder):
        for name in folders:
            if Path(place, name).is_symlink():
                raise DataError(f'{shown(folder)} holds a link to another folder, "{name}"; {_FOLDERS}')
        for name in names:
            inner = Path(place, name).relative_to(folder)
            kind = _kind(inner)
            if kind is None or inner.suffix.lower() == ".txt":
                continue
            if any(part.startswith((".", "_")) for part in inner.parts):
                raise DataError(
                    f'{shown(folder)} holds a hidden or unfinished file, "{inner}"; remove it, or {_FOLDERS}'
                )
            kinds.setdefault(kind, str(inner))
            keys |= {part.partition("=")[0] for part in inner.parts[:-1] if "=" in part}
            found.append(str(folder / inner))
            _check_plain(found[-1])
    if not found:
        raise DataError(f"the folder {shown(folder)} holds no table: no CSV, Parquet or other file that is read")
    if len(kinds) > 1:
        main = "parquet" if "parquet" in kinds else next(iter(kinds))
        other = next(file for kind, file in kinds.items() if kind != main)
        raise DataError(f'{shown(folder)} holds "{other}" beside {SAID[main]} files; {_FOLDERS}')
    (kind,) = kinds
    if keys and kind in {"parquet", "ipc", "orc"}:
        _check_keys(folder, keys, found, kind)
    elif keys:
        raise DataError(f"{shown(folder)} keeps columns in the names of its folders, which are not read; {_FOLDERS}")
    return sorted(found)


def _check_keys(folder: Path, keys: set[str], files: list[str], kind: str) -> None:
    """Names of folders may repeat a column of the files; they may not be the only place that holds it."""
    lost = sorted(keys - set(schema_of(files[0], kind).names))
    if lost:
        raise DataError(
            f'{shown(folder)} keeps column "{lost[0]}" in the names of its folders, which are not read; write it into '
            f"the files, or {_FOLDERS} to leave it out"
        )


def shown(path: str | Path) -> str:
    """The path as the user typed it is hers to see; only its last part is repeated."""
    return f'"{Path(path).name}"'


def kind_of(file: str) -> str:
    """What sort of file it is, by its name."""
    kind = _kind(Path(file))
    if kind is None:
        known = ", ".join(f"{SAID[k]} ({' '.join(suffixes)})" for k, suffixes in SUFFIXES.items())
        raise DataError(f"{shown(file)} is none of the files that are read: {known}")
    return kind


def _kind(file: Path) -> str | None:
    packed = file.suffix.lower() in PACKED
    kind = _KINDS.get((file.with_suffix("") if packed else file).suffix.lower())
    return None if packed and kind not in {"csv", "json"} else kind


def schema_of(file: str, kind: str) -> pa.Schema:
    """The columns of a Parquet, Arrow or ORC file as they are written in it."""
    try:
        if kind == "parquet":
            return pq.read_schema(Path(file).absolute())
        from pyarrow.fs import LocalFileSystem  # with it come those of clouds

        form = ds.IpcFileFormat() if kind == "ipc" else ds.OrcFileFormat()
        return form.inspect(str(Path(file).absolute()), LocalFileSystem())
    except (pa.ArrowException, OSError):
        raise DataError(f"{shown(file)} is damaged or not a readable {SAID[kind]} file") from None


def check_same(files: Sequence[str], kind: str) -> None:
    """Refuse files that are not parts of one table, or name a column twice."""
    first = schema_of(files[0], kind)
    check_names(first.names, shown(files[0]))
    check_digits(first)
    expected: list[tuple[str, pa.DataType]] = []
    for file in files:
        # whether a library wrote a dictionary is no difference
        schema = schema_of(file, kind)
        columns = [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
        expected = expected or columns
        if columns != expected:
            raise DataError(f"{shown(file)} has other columns than {shown(files[0])}, or other types in them")


def check_digits(schema: pa.Schema) -> None:
    """Refuse decimals that the engine would round to floating point, or cannot hold at all."""
    for field in schema:
        if pa.types.is_decimal(field.type) and (field.type.precision > MOST_DIGITS or field.type.scale < 0):
            message = f'column "{field.name}" has type {field.type}, of which digits would be lost; turn it into text'
            raise DataError(message, column=field.name)


def check_names(names: Sequence[object], where: str = "the table") -> None:
    """Refuse names that an engine would take for the same, or cut, before it makes up others for them."""
    seen: set[str] = set()
    for name in map(str, names):
        if "\0" in name:  # libraries hand names over as texts that end there
            raise DataError(f'{where} has a NUL in the name of column "{name}"; rename it', column=name)
        if name.lower() in seen:
            message = f'{where} names column "{name}" twice (upper and lower case count as the same)'
            raise DataError(message, column=name)
        seen.add(name.lower())


# --- ways of reading that a source takes


def options_of(given: str) -> tuple[str, ...]:
    """The fields of a `Source` that a path or an address takes; none where it is none."""
    try:
        address = address_of(given)
        if address is not None:
            return ("types",) if address.table is not None else _TAKEN["database"]
        return _TAKEN.get(kind_of(files_of(given)[0]), ("types",))
    except SfumatoError:
        return ()


def check_options(source: Source, kind: str) -> None:
    """Raise SpecError for the first way of reading that is asked for and would not be honoured."""
    for name in OPTIONS:
        if name not in _TAKEN.get(kind, ("types",)):
            source.refuse(name, why=_GO_WITH.get(name, "is for CSV files only"))


# --- rows of sources that can be read once


class Readable(Protocol):
    """What gives bytes until there are none."""

    def read(self, size: int, /) -> bytes: ...


class PrivateCopy:
    """A private folder that goes when nobody holds it any more."""

    def __init__(self) -> None:
        self.folder = scratch.new_folder("rows")
        weakref.finalize(self, scratch.remove, self.folder)

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Path:
        """A Parquet file of the rows, in their order, without the schema's own notes."""
        path = self.folder / "rows.parquet"
        try:
            with pq.ParquetWriter(path, schema.remove_metadata()) as writer:
                for batch in batches:
                    writer.write_batch(batch.replace_schema_metadata(None))
        except pa.ArrowException:  # the library's own message may quote a cell
            raise DataError("the batches of the source do not have one schema, or cannot be read") from None
        except OSError as error:
            raise _full(error) from None
        return path

    def bytes(self, name: str, source: Readable) -> Path:
        """A file of everything that can be read from `source`."""
        path = self.folder / name
        try:
            with path.open("xb") as target:
                while piece := source.read(PIECE):
                    target.write(piece)
        except OSError as error:
            raise _full(error) from None
        return path


def _full(error: OSError) -> ReleaseError:
    reason = "the disk is full" if error.errno == ENOSPC else "the source cannot be copied to the temporary folder"
    return ReleaseError(f"{reason}; nothing was published")


def standard_input() -> str:
    """A private file of everything on standard input, named after what its first bytes say."""
    if sys.stdin.isatty():
        raise DataError("- reads the table from a pipe, and there is none")
    copy = PrivateCopy()
    _kept.append(copy)
    path = copy.bytes("input", sys.stdin.buffer)
    with path.open("rb") as handle:
        start = handle.read(64)
    if not start:
        raise DataError("standard input is empty")
    ending = next((e for sign, e in SIGNS.items() if start.startswith(sign)), None)
    if ending is None:
        ending = ".jsonl" if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["} else ".csv"
    return str(path.rename(path.with_name(f"standard input{ending}")))


# --- compressed files and other encodings


def compression_of(file: str) -> str:
    """How the file is compressed, by its name."""
    return COMPRESSIONS.get(Path(file).suffix.lower(), PLAIN)


def check_unpacked(file: str) -> None:
    """Raise DataError where the plain bytes of the file are packed still, as its name does not say."""
    with unpacked(file) as handle:
        begins = handle.read(4)
    for mark, kind in BEGINNINGS.items():
        if begins.startswith(mark):
            raise DataError(f"{shown(file)} is no text but {kind}; unpack it, or end its name accordingly")


@contextmanager
def unpacked(file: str) -> Iterator[Any]:
    """The plain bytes of the file; DataError where it is damaged."""
    kind = compression_of(file)
    try:
        if kind == "zip":
            with zipfile.ZipFile(file) as archive, archive.open(_only(archive, file)) as inner:
                yield inner
        elif kind != PLAIN:
            with pa.input_stream(file, compression=kind) as stream:
                yield stream
        else:
            with Path(file).open("rb") as inner:
                yield inner
    except UnicodeError:
        raise
    except RuntimeError:  # of zipfile: it asks for a password
        raise DataError(f"{shown(file)} is encrypted; unpack it first") from None
    except (zlib.error, EOFError, zipfile.BadZipFile, pa.ArrowException, NotImplementedError, OSError) as error:
        if kind == PLAIN and isinstance(error, OSError):
            raise DataError(f"cannot read {shown(file)}: {error.strerror}") from None
        raise DataError(f"{shown(file)} is damaged or cut off, or not compressed as its name says") from None


def _only(archive: zipfile.ZipFile, file: str) -> zipfile.ZipInfo:
    """The one table in the archive."""
    inside = [e for e in archive.infolist() if not e.is_dir() and not e.filename.startswith(ZIPPED_HIDDEN)]
    if len(inside) != 1:
        raise DataError(f"{shown(file)} holds {len(inside)} files; a zip archive must hold one table")
    return inside[0]


def in_plain(files: Sequence[str], encoding: str, *, copied: bool = False) -> tuple[list[str], PrivateCopy | None]:
    """(the files as the engine can read them, the private copy that some of them lie in).

    Read where they are: plain or gzip, in UTF-8. The engine does not see that a zstd file was cut off, knows no zip
    and few encodings; such files are copied, and all where it is asked for.
    """
    direct = {PLAIN, "gzip"} if len({compression_of(f) for f in files}) == 1 else {PLAIN}
    utf_8 = codecs.lookup(encoding).name in {"utf-8", "utf-8-sig", "ascii"} and not copied
    if utf_8 and all(compression_of(f) in direct for f in files):
        return list(files), None
    copy = PrivateCopy()
    found = []
    for number, file in enumerate(files):
        name = f"{number}.csv"
        with unpacked(file) as handle:
            if utf_8:
                found.append(str(copy.bytes(name, handle)))
                continue
            with io.TextIOWrapper(handle, encoding=encoding, newline="") as text:
                try:
                    found.append(str(copy.bytes(name, _InUtf8(text))))
                except UnicodeError:
                    raise DataError(f"{shown(file)} is not text in the encoding {encoding}") from None
    return found, copy


class _InUtf8:
    """A text as bytes."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text

    def read(self, size: int, /) -> bytes:
        return self._text.read(size).encode("utf-8")


# --- look-up tables that a reader brings along: small files or data frames, read into columns of plain values


MOST_ROWS = 10_000
MOST_BYTES = 20_000_000
LOOKUP_NAME = re.compile(r"[A-Za-z_]\w{0,62}")


def small_table(given: Any, name: str) -> dict[str, list[Any]]:
    """Column -> values, row by row, of a CSV or Parquet file or of any data frame."""
    if not LOOKUP_NAME.fullmatch(name) or name.lower() == "release":
        raise DataError(f'"{name[:60]}" is no name for a look-up table')
    table = _lookup_file(Path(given), name) if isinstance(given, str | Path) else _lookup_frame(given, name)
    if table.num_rows > MOST_ROWS:
        raise DataError(f'the look-up table "{name}" has {table.num_rows:,} rows; at most {MOST_ROWS:,} are read')
    return {column: table[column].to_pylist() for column in table.column_names}


def _lookup_file(path: Path, name: str) -> pa.Table:
    from pyarrow import csv

    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f'the file "{path.name}" is too large for a look-up table')
        if path.suffix.lower() == ".csv":
            return csv.read_csv(path)
        if path.suffix.lower() in {".parquet", ".pq"}:
            return pq.read_table(path)
    except (OSError, pa.ArrowInvalid):  # the library's own message may quote a cell
        raise DataError(f'the file "{path.name}" of the look-up table "{name}" cannot be read') from None
    raise DataError(f'a look-up table is a CSV or Parquet file, "{path.name}" is neither')


def _lookup_frame(given: Any, name: str) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    try:
        import narwhals as nw

        return nw.from_native(given, eager_only=True).to_arrow()
    except (TypeError, ImportError):
        raise DataError(f'the look-up table "{name}" is no path and no data frame') from None
