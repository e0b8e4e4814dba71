"""Releases that say what is not so: a copy of a release is changed and its digests are made anew."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.query import open_release
from sfumato.release.verify import verify


def forged(
    release: Path,
    target: Path,
    *,
    manifest: Callable[[dict[str, Any]], None] | None = None,
    data: Callable[[pa.Table], pa.Table] | None = None,
    side: Callable[[pa.Table], pa.Table] | None = None,
    weights: Callable[[pa.Table], pa.Table] | None = None,
) -> Path:
    """A copy with changed files, whose digests and row counts are those of the changed files."""
    shutil.copytree(release, target)
    for name, change in (("data.parquet", data), ("sensitive.parquet", side), ("weights.parquet", weights)):
        if change is not None and (target / name).exists():
            pq.write_table(change(pq.read_table(target / name)), target / name)
    stated = json.loads((target / "release.json").read_text(encoding="utf-8"))
    for name in stated["files"]:
        stated["files"][name]["sha256"] = hashlib.sha256((target / name).read_bytes()).hexdigest()
        stated["files"][name]["rows"] = pq.read_metadata(target / name).num_rows
    stated["rows"] = stated["files"]["data.parquet"]["rows"]
    if manifest is not None:
        manifest(stated)
    (target / "release.json").write_text(json.dumps(stated), encoding="utf-8")
    return target


def verified(folder: Path) -> list[str]:
    """The lines of `sfumato verify --test`; raises what it refuses with."""
    return list(verify(open_release(folder).opened, test=True))
