"""A DuckDB file: opened for reading only and held open, so that nobody changes it between the passes."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from ...errors import DataError
from ..addresses import Address
from ..batches import Batches
from ..source import Source
from .snapshot import Snapshot, asked

BATCH = 65_536


def quoted(name: str) -> str:
    """The name, with its schema before a point, as an identifier."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def snapshot(address: Address, source: Source) -> Snapshot:
    """The rows that the address and the source ask for, as of now."""
    assert address.path is not None
    name = address.table if address.table is not None else source.table
    text = asked(source.table, source.query, address.table, quoted(name or ""))
    said = f'"{address.path.name}"'
    if not address.path.is_file():
        raise DataError(f"there is no file {said}")
    try:
        con = duckdb.connect(str(address.path.absolute()), read_only=True)
        con.execute("SET enable_progress_bar=false")
        con.execute("SET enable_external_access=false")
        con.execute("BEGIN TRANSACTION READ ONLY")
    except duckdb.Error:
        raise DataError(
            f"{said} cannot be read: it is not a DuckDB database of this version, or another program holds it open"
        ) from None
    try:
        found = con.sql(f"SELECT * FROM ({text}\n) AS source LIMIT 0").to_arrow_table().schema
    except duckdb.CatalogException:
        raise DataError("the database has no such table, or the query names one that it does not have") from None
    except duckdb.Error:
        raise DataError("the query is not one SELECT that DuckDB can answer") from None

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            yield from con.sql(f"SELECT * FROM ({text}\n) AS source").to_arrow_reader(BATCH)
        except (duckdb.Error, pa.ArrowException):
            raise DataError("the DuckDB database failed while it was read; it may be damaged") from None

    return Snapshot(batches=Batches(found, rows))
