"""Generalisation hierarchies from files: one CSV per column, ARX style (value; label; label; ...; *)."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

from ..errors import SpecError

MAX_BYTES = 50_000_000


def with_hierarchies(method: Any) -> Any:
    """The specification with the files its `hierarchies` name read; any other is returned as it is."""
    given = getattr(method, "given", None)
    if getattr(method, "hierarchies", None) is None or given is None:
        return method
    read = {
        column: read_rows(Path(what), column) if isinstance(what, Path) or _is_file(what) else what
        for column, what in given().items()
    }
    return dataclasses.replace(method, hierarchies=read)


def _is_file(what: Any) -> bool:
    return isinstance(what, str) and what.lower().endswith((".csv", ".txt"))


def read_rows(path: Path, column: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a hierarchy file; `;` separates where the first line has one, else `,`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SpecError(f'the hierarchy file of "{column}" is larger than {MAX_BYTES:,} bytes', field="hierarchies")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SpecError(f'the hierarchy file "{path.name}" of "{column}" cannot be read', field="hierarchies") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise SpecError(f'the hierarchy file "{path.name}" of "{column}" is empty', field="hierarchies")
    return tuple(tuple(row) for row in csv.reader(lines, delimiter=";" if ";" in lines[0] else ","))
