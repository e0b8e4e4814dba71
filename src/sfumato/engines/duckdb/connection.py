"""The one place that opens DuckDB: in memory, silent, and without a way to fetch extensions."""

from __future__ import annotations

import duckdb


def connect() -> duckdb.DuckDBPyConnection:
    """A private in-memory database."""
    con = duckdb.connect()
    con.execute("SET enable_progress_bar=false")  # it would write into --json output
    con.execute("SET autoinstall_known_extensions=false")
    con.execute("SET autoload_known_extensions=false")
    return con


def quoted(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
