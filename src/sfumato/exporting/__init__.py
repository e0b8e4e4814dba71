"""Out again: one release, one target, whole or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path

from ..engines import scratch
from ..engines.source import address_of
from ..errors import ReleaseError, SpecError
from ..release.opened import OpenedRelease
from .contents import Contents, contents_of
from .files import csv_endings, to_csv, to_duckdb, to_excel, to_postgresql, to_sqlite, to_statistics

ENDINGS = {
    ".csv": "csv",
    ".xlsx": "excel",
    ".sav": "statistics",
    ".dta": "statistics",
    ".sqlite": "sqlite",
    ".db": "sqlite",
    ".duckdb": "duckdb",
}


def export(release: OpenedRelease, target: str | Path, *, force: bool = False) -> Contents:
    """Write the release to a file or a database, by the ending of its name or its address; what was written."""
    address = address_of(str(target))
    contents = contents_of(release)
    if address is not None and address.kind == "postgresql":
        to_postgresql(contents, address)
        return contents
    path = Path(target) if address is None else address.path
    assert path is not None
    kind = ENDINGS.get(path.suffix.lower()) if address is None else address.kind
    if kind is None:
        known = ", ".join(ENDINGS)
        raise SpecError(f'"{path.name}" ends in none of {known}, and is no postgresql:// address', field="target")
    names = [path.name, *(path.stem + ending for ending in (csv_endings(contents) if kind == "csv" else ()))]
    scratch.check_free([path.with_name(name) for name in names], force=force)
    folder = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
    partial, *beside = (folder / name for name in names)
    try:
        with scratch.temporary(folder):
            folder.mkdir(mode=0o700)
            if kind == "csv":
                to_csv(contents, partial, beside)
            elif kind == "excel":
                to_excel(contents, partial)
            elif kind == "statistics":
                to_statistics(contents, partial, path.suffix.lower())
            elif kind == "sqlite":
                to_sqlite(contents, partial)
            else:
                to_duckdb(contents, partial)
            release.check_unchanged()
            scratch.place_files([*beside, partial], path.parent, force=force)
    except OSError as error:
        raise ReleaseError(f'cannot write "{path.name}": {error.strerror}') from None
    return contents
