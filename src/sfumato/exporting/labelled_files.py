"""A release as a file of SPSS or Stata, with titles and value labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import ReleaseError, SpecError
from ..release.manifest import ColumnModel
from .contents import WARNING, Contents, flat

MISSING = "writing SPSS and Stata needs extras: pip install 'sfumato[files]' pandas"
LONGEST = {".sav": 64, ".dta": 32}  # characters of a name
TITLE = 80
RESERVED = frozenset(["all", "and", "by", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "to", "with"])  # of SPSS
RESERVED |= frozenset(["byte", "double", "float", "if", "in", "int", "long", "str", "strl", "using"])  # of Stata
RESERVED |= {f"str{length}" for length in range(1, 2046)}


def to_statistics(contents: Contents, path: Path, ending: str) -> None:
    """One file of the published rows; names that the package does not allow become titles."""
    try:
        import pandas as pd
        import pyreadstat
    except ImportError:
        raise SpecError(MISSING, field="target") from None
    table = pa.Table.from_batches([flat(batch, texts=True) for batch in contents.rows()]).drop_columns(
        contents.schema.names[:1]
    )
    columns = {c.name: c for c in contents.release.manifest.columns}
    names = allowed_names(table.column_names, LONGEST[ending])
    titles = [
        (columns[n].title if n in columns else None) or (n if names[n] != n else None) for n in table.column_names
    ]
    kept = {n: _kept(table[n]) for n in table.column_names}
    labels = {names[n]: _labels(columns[n], kept[n].type) for n in table.column_names if n in columns}
    frame = pd.DataFrame({names[n]: _cells(kept[n]) for n in table.column_names})
    warning = f"sfumato release: {WARNING}"
    options: dict[str, Any] = {
        "file_label": warning[:TITLE],
        "column_labels": [title[:TITLE] if title else None for title in titles],
        "variable_value_labels": {name: found for name, found in labels.items() if found},
    }
    if ending == ".sav":
        options["note"] = [warning[:TITLE], warning[TITLE:]]
    write = pyreadstat.write_sav if ending == ".sav" else pyreadstat.write_dta
    try:
        write(frame, str(path), **options)
    except Exception:
        raise ReleaseError(f"the release cannot be written as a {ending} file; export it as CSV") from None


def _kept(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers as real ones, which are all that these packages know, or as texts where digits would be lost."""
    kind = column.type
    if pa.types.is_decimal(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(pa.float64() if _exact(column) else pa.string())
    if pa.types.is_string(kind) and pc.any(pc.match_substring(column, "\0")).as_py():
        raise ReleaseError("a text holds a NUL character, at which SPSS and Stata would cut it off; export it as CSV")
    return column


def _cells(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.to_pandas().astype(object)
    return column.to_pandas(date_as_object=True)


def _exact(column: pa.ChunkedArray) -> bool:
    """Whether every number is one that a real number stands for: in all its digits, where it is a decimal one."""
    if pa.types.is_boolean(column.type):
        return True
    low, high = (found.as_py() for found in pc.min_max(column).values())
    scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    return low is None or max(abs(low), abs(high)) * 10**scale < (2**53 if not scale else 10**15)


def _labels(column: ColumnModel, kind: pa.DataType) -> dict[Any, str]:
    """Labels whose values are of the column's own kind."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return {v.value: v.label for v in column.labels or () if v.value is not None and isinstance(v.value, str) == text}


def allowed_names(names: list[str], longest: int) -> dict[str, str]:
    """Names of letters, digits and underscores that are all different, by the names of the columns."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:longest] or "column"
        plain = plain if plain[0].isalpha() and plain.lower() not in RESERVED else f"v{plain}"[:longest]
        made, number = plain, 1
        while made.lower() in taken:
            number += 1
            made = f"{plain[: longest - 4]}_{number}"
        taken.add(made.lower())
        found[name] = made
    return found
