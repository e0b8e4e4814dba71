"""The one place that opens DuckDB: in memory, silent, and without a way to fetch extensions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from weakref import WeakSet

import duckdb
import pyarrow as pa

from ...model.types import ColumnType
from .. import scratch
from ..forks import at_fork

PATTERN = frozenset("*?[]{}\\")  # DuckDB reads a name with one of these as a pattern, even where such a file exists
# Arrow would get bits as bytes of DuckDB's own, times without their zone, and 39 digits in 38
PLAIN = {"BIT": "VARCHAR", "TIME WITH TIME ZONE": "VARCHAR", "HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)"}

_open: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
_inherited: list[duckdb.DuckDBPyConnection] = []  # by a process that was forked off


def connect() -> duckdb.DuckDBPyConnection:
    """A private in-memory database."""
    con = duckdb.connect()
    _open.add(con)
    con.execute("SET enable_progress_bar=false")  # it would write into --json output
    con.execute("SET autoinstall_known_extensions=false")
    con.execute("SET autoload_known_extensions=false")
    return con


def _keep() -> None:
    """Nothing; databases of the process that forked this one off are not closed here: that waits for threads that
    exist only there."""
    _inherited.extend(_open)


at_fork(in_child=_keep)


def quoted(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def plain_path(file: Path) -> str:
    """A path that DuckDB takes for this one file, whatever its name."""
    absolute = str(file.absolute())  # no "s3:" or "~" at its beginning
    return str(scratch.link(file)) if PATTERN & set(absolute) else absolute


def in_plain_types(rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The rows with what Arrow would change in silence as something that it keeps."""
    kinds = dict(zip(rows.columns, map(str, rows.types), strict=True))
    cells = (f"CAST({quoted(n)} AS {PLAIN[k]}) AS {quoted(n)}" if k in PLAIN else quoted(n) for n, k in kinds.items())
    return rows.project(", ".join(cells)) if PLAIN.keys() & set(kinds.values()) else rows


def arrow_types(con: duckdb.DuckDBPyConnection, types: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
    """Arrow's types of columns of these types, as DuckDB gives them out."""
    selected = ", ".join(f"CAST(NULL AS {kind.format_name})" for kind in types.values())
    schema = con.sql(f"SELECT {selected} LIMIT 0").to_arrow_table().schema
    return {name: schema.field(j).type for j, name in enumerate(types)}
