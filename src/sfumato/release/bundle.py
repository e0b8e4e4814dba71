"""The folder of a release: written beside its final place and renamed."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..engines import scratch
from ..engines.batches import write_parquet
from ..errors import ReleaseError, SpecError
from .documents import README, datapackage, readme
from .files import digest, readable
from .manifest import FILES, MAX_MANIFEST, PARTS, DocumentModel, FileModel, Manifest


@contextmanager
def writing(out: Path, *, force: bool = False, apart_from: Iterable[Path] = ()) -> Iterator[Path]:
    """A temporary folder that becomes `out` when the block ends well, and vanishes when it does not.

    SpecError where `out` would replace one of the paths that are read, or lie in one, or hold one.
    """
    check_place(out)
    name = out.name or str(out)
    for path in apart_from:
        read, written = (Path(os.path.realpath(p)) for p in (path, out))  # a loop of links is no error here
        if written == read or read in written.parents or written in read.parents:
            raise SpecError(f'"{name}" and the source lie in each other; choose another place', field="out")
    if out.exists() or out.is_symlink():
        if not force:
            raise ReleaseError(f'"{name}" exists; choose another place or say --force to replace it')
        check_replaceable(out)
    token = secrets.token_hex(6)
    partial, old = out.parent / f".{name}.{token}.partial", out.parent / f".{name}.{token}.old"
    with scratch.temporary(partial):
        try:
            partial.mkdir(mode=0o700)
        except OSError as error:
            raise ReleaseError(f'cannot write "{name}": {error.strerror}') from None
        try:
            yield partial
            for file in partial.rglob("*"):
                scratch.sync(file)
            for folder in (partial / PARTS, partial):
                if folder.is_dir():
                    folder.chmod(0o755)
            scratch.sync(partial)
            scratch.place_folder(partial, out, old, check=check_replaceable if force else None)
        except OSError as error:
            reason = "the disk is full" if error.errno == ENOSPC else error.strerror
            raise ReleaseError(f'cannot write "{name}": {reason}; nothing was published') from None


def write_beside(table: pa.Table, path: Path) -> None:
    """Write sensitive.parquet or sets.parquet."""
    coded = [f.name for f in table.schema if pa.types.is_dictionary(f.type)]
    dictionaries = {name: table[name].chunk(0).dictionary for name in coded if table.num_rows}
    rising = [f.name for f in table.schema if pa.types.is_integer(f.type)]
    write_parquet(path, table.schema, table.to_batches(), dictionaries, rising)


def describe_files(folder: Path) -> dict[str, FileModel]:
    """Digest and rows of the data files in the folder."""
    parts = sorted(f"{PARTS}/{file.name}" for file in (folder / PARTS).glob("*"))
    found = {}
    for name in (n for n in (*parts, *FILES) if (folder / n).exists()):
        with readable(name):
            rows = pq.read_metadata(folder / name).num_rows
        found[name] = FileModel(sha256=digest(folder / name), rows=rows)
    return found


def finish(folder: Path, manifest: Manifest) -> Manifest:
    """Write README.md, datapackage.json and, last of all, release.json; returns what it states."""
    text = readme(manifest).encode()
    (folder / README).write_bytes(text)
    stated = {README: DocumentModel(sha256=hashlib.sha256(text).hexdigest())}
    manifest = manifest.model_copy(update={"documents": stated})
    sizes, schemas = dict[str, int](), dict[str, pa.Schema]()
    for name in manifest.files:
        sizes[name] = (folder / name).stat().st_size
        with readable(name):
            schemas[name] = pq.read_schema(folder / name)
    package = datapackage(manifest, sizes, schemas)
    (folder / "datapackage.json").write_text(json.dumps(package, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = manifest.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"
    if len(text) > MAX_MANIFEST:
        raise ReleaseError(
            f"release.json would have {len(text) / 10**6:.1f} MB, and nobody reads one above "
            f"{MAX_MANIFEST // 10**6} MB; publish columns of fewer values, or larger groups"
        )
    (folder / "release.json").write_bytes(text)
    return manifest


def copy_files(source: Path, folder: Path, manifest: Manifest) -> None:
    """Copy the files of the release in `source` to the folder, release.json last."""
    for name in (*manifest.files, *(manifest.documents or ()), "datapackage.json", "release.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source / name, folder / name)


# --- where a release may be written, and which folders it may replace: releases, with nothing in them of others


OWN_FILES = frozenset(
    {"release.json", "datapackage.json", "release.sig", "README.md"}
)  # besides those that release.json lists


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
