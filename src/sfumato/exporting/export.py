"""Out again: one release, one target, whole or not at all."""

from __future__ import annotations

import secrets
from glob import escape
from pathlib import Path

from ..engines.addresses import address_of
from ..errors import ReleaseError, SpecError
from ..release.opened import OpenedRelease
from .contents import Contents, contents_of
from .databases import to_duckdb, to_postgresql, to_sqlite
from .labelled_files import to_statistics
from .text_files import csv_endings, to_csv, to_excel

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
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial{path.suffix}")
    endings = csv_endings(contents) if kind == "csv" else []
    beside, made = ([place.with_name(place.stem + ending) for ending in endings] for place in (path, partial))
    for final in (path, *beside):
        if final.is_dir() or ((final.exists() or final.is_symlink()) and not force):
            raise ReleaseError(f'"{final.name}" exists; choose another place, or say --force to replace a file')
    try:
        if kind == "csv":
            to_csv(contents, partial, made)
        elif kind == "excel":
            to_excel(contents, partial)
        elif kind == "statistics":
            to_statistics(contents, partial, path.suffix.lower())
        elif kind == "sqlite":
            to_sqlite(contents, partial)
        else:
            to_duckdb(contents, partial)
        release.unchanged()
        for file, final in zip((*made, partial), (*beside, path), strict=True):  # the rows last
            file.replace(final)
    except OSError as error:
        raise ReleaseError(f'cannot write "{path.name}": {error.strerror}') from None
    finally:
        for file in path.parent.glob(f"{escape(partial.stem)}*") if path.parent.is_dir() else ():
            file.unlink(missing_ok=True)
    return contents
