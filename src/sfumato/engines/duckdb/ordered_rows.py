"""Rows in key order into one Parquet file: by DuckDB alone, or with list columns put in on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from ..contract import ListColumn
from ..list_columns import ROW_GROUP, write_with_lists


def write_ordered(con: duckdb.DuckDBPyConnection, select: str, path: Path, lists: Sequence[ListColumn]) -> None:
    """Nothing; the file holds the rows of `select`, in its order."""
    if lists:
        write_with_lists(con.sql(select).to_arrow_reader(ROW_GROUP), path, lists)
    else:
        target = str(path).replace("'", "''")
        con.execute(f"COPY ({select}) TO '{target}' (FORMAT parquet)")
