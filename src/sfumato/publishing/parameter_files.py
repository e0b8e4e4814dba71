"""Parameters that are written as small CSV files: hierarchies and target weights."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import SpecError

MAX_BYTES = 64 * 2**20
LEADING_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)  # of a file of SQL


def read_rows(path: str, field: str, about: str = "") -> tuple[tuple[str, ...], ...]:
    """The rows of a CSV file; the separator is ; or , whichever the first line holds. `about` is for messages."""
    name = f'"{Path(path).name}"{about}'
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise SpecError(f"the file {name} is larger than {MAX_BYTES // 2**20} MiB", field=field)
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"the file {name} cannot be read as text", field=field) from None
    rows = csv.reader(text.splitlines(), delimiter=";" if ";" in text.partition("\n")[0] else ",")
    found = tuple(tuple(cell.strip() for cell in row) for row in rows if any(row))
    if not found:
        raise SpecError(f"the file {name} is empty", field=field)
    return found


def read_column_hierarchy(path: str, column: str) -> tuple[tuple[str, ...], ...]:
    """An ARX-style hierarchy of one of several columns."""
    return read_rows(path, "hierarchies", f' (hierarchy of "{column}")')


def read_hierarchy(path: str) -> tuple[tuple[str, ...], ...]:
    """An ARX-style hierarchy: a value, then its ever wider labels."""
    return read_rows(path, "hierarchy")


def read_target(path: str) -> dict[str, Any]:
    """Weights by value (value,weight), or by part of the table (part,value,weight); a header line is skipped."""
    rows = read_rows(path, "target")
    if rows and rows[0][-1].lower() in {"weight", "mass", "probability"}:
        rows = rows[1:]
    widths = {len(row) for row in rows}
    if widths == {2}:
        return _unique(rows)
    if widths == {3}:
        parts: dict[str, Any] = {}
        for part in dict.fromkeys(row[0] for row in rows):
            parts[part] = _unique(tuple(row[1:] for row in rows if row[0] == part))
        return parts
    raise SpecError(f'"{Path(path).name}" must have the columns value,weight or part,value,weight', field="target")


def _unique(rows: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    weights: dict[str, Any] = {}
    for value, weight in rows:
        if value in weights:
            raise SpecError(f'the target lists "{value}" twice', field="target")
        weights[value] = weight
    return weights


def read_sql(text: str) -> str:
    """The workload with the questions of the file that it names: FILE.sql, or a mix such as ranges:1,FILE.sql:2."""
    if text.lower().endswith(".sql") and ("," not in text or Path(text).exists()):
        return _questions(text)
    files, mix = [], []
    for item in text.split(","):
        kind, _, share = item.rpartition(":") if ":" in item else (item, "", "1")
        named = kind.strip().lower().endswith(".sql")
        files += [kind.strip()] if named else []
        mix.append(f"sql:{share}" if named else item)
    if len(files) != 1:
        raise SpecError("a workload names one file of questions", field="workload")
    return f"{','.join(mix)}; {_questions(files[0])}"


def _questions(path: str) -> str:
    name = f'"{Path(path).name}"'
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise SpecError(f"the file {name} is larger than {MAX_BYTES // 2**20} MiB", field="workload")
        text = Path(path).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"the file {name} cannot be read as text", field="workload") from None
    text = LEADING_COMMENTS.sub("", text)
    if not text.lower().startswith("select"):
        raise SpecError(f"the file {name} must hold SELECT statements, one for each question", field="workload")
    return text


READERS: dict[str, Callable[[str], Any]] = {"hierarchy": read_hierarchy, "target": read_target, "sql": read_sql}
