"""A DuckDB file: opened for reading only and held open, so that nobody changes it between the passes."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from ...errors import DataError
from ..batches import Batches
from ..duckdb.connection import in_plain_types
from ..files import check_names
from ..source import Address, Source
from .postgresql import table_name
from .snapshot import Snapshot, asked

BATCH = 65_536


def snapshot(address: Address, source: Source) -> Snapshot:
    """The rows that the address and the source ask for, as of now."""
    assert address.path is not None
    name = address.table if address.table is not None else source.table
    text = asked(source.table, source.query, address.table, table_name(name or ""))
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

    def asked_again() -> duckdb.DuckDBPyRelation:
        return in_plain_types(con.sql(f"SELECT * FROM ({text}\n) AS source"))

    try:
        asked_again()  # nothing but one SELECT stands in brackets
        check_names(con.sql(text).columns, "the query")  # around it, DuckDB makes up other names for twins
        found = asked_again().limit(0).to_arrow_table().schema
    except duckdb.CatalogException:
        raise DataError("the database has no such table, or the query names one that it does not have") from None
    except duckdb.Error:
        raise DataError("the query is not one SELECT that DuckDB can answer") from None

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            yield from asked_again().to_arrow_reader(BATCH)
        except (duckdb.Error, pa.ArrowException):
            raise DataError("the DuckDB database failed while it was read; it may be damaged") from None

    return Snapshot(batches=Batches(found, rows))
