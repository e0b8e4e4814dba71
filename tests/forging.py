"""Releases that say what is not so: a copy of a release is changed and everything that describes it is made anew."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import ReleaseError, SfumatoError
from sfumato.query import open_release
from sfumato.release.bundle import write_beside
from sfumato.release.documents import README, datapackage, readme
from sfumato.release.manifest import parse_manifest
from sfumato.release.opened import open_folder
from sfumato.release.verify import verify


def forged(
    release: Path,
    target: Path,
    *,
    manifest: Callable[[dict[str, Any]], None] | None = None,
    data: Callable[[pa.Table], pa.Table] | None = None,
    side: Callable[[pa.Table], pa.Table] | None = None,
    sets: Callable[[pa.Table], pa.Table] | None = None,
) -> Path:
    """A copy with changed files; digests, row counts and datapackage.json are those of the changed files."""
    shutil.copytree(release, target)
    for name, change in (("data.parquet", data), ("sensitive.parquet", side), ("sets.parquet", sets)):
        if change is not None and (target / name).exists():
            pq.write_table(change(pq.read_table(target / name)), target / name, store_schema=False)
    stated = json.loads((target / "release.json").read_text(encoding="utf-8"))
    for name in stated["files"]:
        stated["files"][name]["sha256"] = _digest(target / name)
        stated["files"][name]["rows"] = pq.read_metadata(target / name).num_rows
    stated["rows"] = stated["files"]["data.parquet"]["rows"]
    if manifest is not None:
        manifest(stated)
    (target / "release.json").write_text(json.dumps(stated), encoding="utf-8")
    if manifest is not None and sets is None and "sets.parquet" in stated.get("files", {}):
        _reweigh(target, stated)
    describe(target)
    return target


def _reweigh(target: Path, stated: dict[str, Any]) -> None:
    """The sets and weights that the changed parameters give, where they give any."""
    with contextlib.suppress(SfumatoError, ValueError, KeyError, IndexError):
        made = open_folder(target, check=False).sets_table()
        if made is not None:
            write_beside(made, target / "sets.parquet")
            stated["files"]["sets.parquet"]["sha256"] = _digest(target / "sets.parquet")
            stated["files"]["sets.parquet"]["rows"] = made.num_rows
            (target / "release.json").write_text(json.dumps(stated), encoding="utf-8")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def describe(target: Path) -> None:
    """Write datapackage.json and README.md anew, where release.json can be read."""
    try:
        manifest = parse_manifest((target / "release.json").read_bytes())
        schemas = {name: pq.read_schema(target / name) for name in manifest.files}
        sizes = {str(name): (target / name).stat().st_size for name in manifest.files}
        package = datapackage(manifest, sizes, schemas)
    except (ReleaseError, KeyError, OSError, pa.ArrowException):
        return
    (target / "datapackage.json").write_text(json.dumps(package), encoding="utf-8")
    if (target / README).exists() and not (target / README).is_symlink():
        stated = json.loads((target / "release.json").read_text(encoding="utf-8"))
        stated["documents"] = {README: {"sha256": hashlib.sha256(readme(manifest).encode()).hexdigest()}}
        (target / README).write_text(readme(manifest), encoding="utf-8")
        (target / "release.json").write_text(json.dumps(stated), encoding="utf-8")


def verified(folder: Path) -> list[str]:
    """The lines of `sfumato verify --test`; raises what it refuses with."""
    return list(verify(open_release(folder).opened, test=True))
