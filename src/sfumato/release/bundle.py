"""The folder: written beside its final place and renamed, read as if a stranger had sent it."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from errno import ENOSPC
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..engines import scratch
from ..errors import ReleaseError, VerificationError
from . import placing
from .datapackage import datapackage
from .digests import digest
from .manifest import FILES, FileModel, Manifest, parse_manifest
from .placing import PARTS
from .readme import README, readme
from .stated_columns import check_once

MAX_MANIFEST = placing.MAX_MANIFEST
# Rows in random order, one of several values in each: a release has well above a tenth of a bit for every row. A file
# that claims more would fill the memory of whoever opens it.
ROWS_A_BYTE, FEW_ROWS = 64, 5_000_000
LONGEST = 255  # letters of a name that are repeated: file systems have no longer ones
GROUP_ROWS = 1 << 17  # of sensitive.parquet
TOGETHER = 2  # files that are read through, and row groups that are made, at the same time


@contextmanager
def writing(
    out: Path,
    *,
    force: bool = False,
    check: Callable[[Path], None] | None = None,
) -> Iterator[Path]:
    """A temporary folder that becomes `out` when the block and `check` end well, and vanishes when they do not."""
    placing.check_place(out)
    name = out.name or str(out)
    if out.exists() or out.is_symlink():
        if not force:
            raise ReleaseError(f'"{name}" exists; choose another place or say --force to replace it')
        placing.check_replaceable(out)
    token = secrets.token_hex(6)
    partial, old = out.parent / f".{name}.{token}.partial", out.parent / f".{name}.{token}.old"
    with scratch.temporary(partial):
        try:
            partial.mkdir(mode=0o700)
        except OSError as error:
            raise ReleaseError(f'cannot write "{name}": {error.strerror}') from None
        try:
            yield partial
            with ThreadPoolExecutor(max_workers=1) as beside:
                on_disk = beside.submit(_sync_all, partial)
                if check is not None:
                    check(partial)
                on_disk.result()
            for folder in (partial / PARTS, partial):
                if folder.is_dir():
                    folder.chmod(0o755)
            scratch.sync(partial)
            scratch.place_folder(partial, out, old, check=placing.check_replaceable if force else None)
        except OSError as error:
            reason = "the disk is full" if error.errno == ENOSPC else error.strerror
            raise ReleaseError(f'cannot write "{name}": {reason}; nothing was published') from None


def _sync_all(folder: Path) -> None:
    for file in folder.rglob("*"):
        scratch.sync(file)


def write_side(table: pa.Table, path: Path) -> str:
    """The SHA-256 of what was written to sensitive.parquet: values with a dictionary, ids packed, no trace of how the
    table was made in memory."""
    from ..engines.parquet_rows import write_rows  # no reader needs it

    rising = [f.name for f in table.schema if pa.types.is_integer(f.type)]
    rows = (partial(_rows, table, first) for first in range(0, table.num_rows, GROUP_ROWS))
    return write_rows(path, table.schema, rows, (), TOGETHER, rising)


def _rows(table: pa.Table, first: int) -> pa.RecordBatch:
    """The rows of one row group."""
    return table.slice(first, GROUP_ROWS).combine_chunks().to_batches()[0]


def write_weights(table: pa.Table, path: Path) -> None:
    """weights.parquet: one row per published set and value."""
    numbers = ["weight", "variance_weight"]
    named = [name for name in table.column_names if name not in numbers]
    pq.write_table(table, path, use_dictionary=named, write_statistics=named, store_schema=False)


def describe_files(folder: Path, as_written: Mapping[str, str] | None = None) -> dict[str, FileModel]:
    """Digest and rows of the data files in the folder; `as_written` are digests that are known from writing them."""
    parts, known = sorted(f"{PARTS}/{file.name}" for file in (folder / PARTS).glob("*")), as_written or {}
    found = {}
    for name in (n for n in (*parts, *FILES) if (folder / n).exists()):
        with readable(name):
            rows = pq.read_metadata(folder / name).num_rows
        found[name] = FileModel(sha256=known.get(name) or digest(folder / name), rows=rows)
    return found


def finish(folder: Path, manifest: Manifest) -> None:
    """Write datapackage.json, README.md where the manifest lists one, and, last of all, release.json."""
    sizes, schemas = dict[str, int](), dict[str, pa.Schema]()
    for name in manifest.files:
        sizes[name] = (folder / name).stat().st_size
        with readable(name):
            schemas[name] = pq.read_schema(folder / name)
    package = datapackage(manifest, sizes, schemas)
    (folder / "datapackage.json").write_text(json.dumps(package, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if manifest.documents is not None:
        (folder / README).write_text(readme(manifest), encoding="utf-8")
    text = manifest.model_dump_json(indent=1, exclude_none=True)
    (folder / "release.json").write_text(text + "\n", encoding="utf-8")


def copy_files(source: Path, folder: Path, manifest: Manifest) -> None:
    """Nothing; the folder holds the files of the release in `source`, release.json last."""
    for name in (*manifest.files, *(manifest.documents or ()), "datapackage.json", "release.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source / name, folder / name)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Errors of the Parquet library in the block become a ReleaseError: a file of a release may hold anything."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last: a column's name that is no text
        raise ReleaseError(f"{name} cannot be read; the release is damaged") from None


def read_manifest(folder: Path) -> Manifest:
    """release.json of the folder, within limits; every file it names is a plain file inside the folder."""
    path, name = folder / "release.json", folder.name[:LONGEST]
    try:
        if path.is_symlink() or not path.is_file():
            raise ReleaseError(f'"{name}" is not a release: it holds no release.json')
        if path.stat().st_size > MAX_MANIFEST:
            raise ReleaseError(f"release.json is larger than {MAX_MANIFEST // 2**20} MiB; it is not read")
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
    for name in (*manifest.files, *(manifest.documents or {})):
        if (folder / name).is_symlink() or not (folder / name).is_file():
            raise ReleaseError(f"{name} is missing, or is not a plain file of the release")
    return manifest


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
        check_once(name, schema)
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


def check_digests(folder: Path, manifest: Manifest, threads: int = TOGETHER) -> None:
    """Refuse files that are not the ones the manifest describes."""
    stated = {str(name): file.sha256 for name, file in manifest.files.items()}
    stated |= {name: document.sha256 for name, document in (manifest.documents or {}).items()}
    with ThreadPoolExecutor(max_workers=threads) as pool:
        found = pool.map(lambda name: digest(folder / name), stated)
        for (name, sha256), of_file in zip(stated.items(), found, strict=True):
            if of_file != sha256:
                raise VerificationError(f"{name} is not the file that release.json describes: its digest differs")
