"""Which files a source stands for, and whether they are one table: nothing is guessed, nothing left out in silence."""

from __future__ import annotations

import glob as globbing
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataError

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
    """Refuse what is no file that can be read twice, or that libraries cannot name."""
    try:
        file.encode()
    except UnicodeEncodeError:
        raise DataError(f"{shown(file)} has a name that is not UTF-8; rename it") from None
    if not Path(file).is_file():  # a pipe would be waited for, and is gone after the first of two passes
        raise DataError(f"{shown(file)} is no plain file; copy what it gives into one")


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
        import pyarrow.dataset as ds  # it loads pandas
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
    columns = _plain(first)
    for file in files[1:]:
        if _plain(schema_of(file, kind)) != columns:
            raise DataError(f"{shown(file)} has other columns than {shown(files[0])}, or other types in them")


def _plain(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types; whether a library wrote a dictionary is no difference."""
    return [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]


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
