"""A release in SQLite, DuckDB or PostgreSQL: rows, weights, and views in which ordinary SQL gives estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ..engines.duckdb.connection import quoted
from ..engines.source import Address
from ..errors import ReleaseError, SpecError
from ..model.names import free_name
from .contents import WEIGHT, Contents, UnitWeights, flat

MISSING = "writing to this database needs the extra: pip install 'sfumato[databases]'"
SCHEMA = "sfumato_release"
RELEASE, SIDE, WEIGHTS, ESTIMATES, ABOUT = "release", "sensitive", "weights", "estimates", "about"
VARIANCE = "variance"
Ingest = Callable[[str, pa.Schema, Iterator[pa.RecordBatch]], None]


def view(weights: UnitWeights, rows: list[str], name: str, same: str) -> str:
    """CREATE VIEW: every row once for each value that it may have, with its weight.

    `same` compares two cells, of which both may be missing.
    """
    on = [f"r.{quoted(weights.part)} = w.{quoted(weights.part)}"] if weights.part else []
    equal = same if weights.nullable else "="
    on += [f"r.{quoted(n)} {equal} w.{quoted(s)}" for n, s in zip(weights.columns, weights.shown, strict=False)]
    kept = [f"r.{quoted(n)}" for n in rows if n not in weights.columns]
    true = [f"w.{quoted(n)}" for n in weights.columns]
    w = f"w.{quoted(weights.weight)}"
    weight, variance = (quoted(free_name(n, (*rows, *weights.columns))) for n in (WEIGHT, VARIANCE))
    extra = [f"{w} AS {weight}", f"{w} * ({w} - 1) AS {variance}" if weights.errors else f"NULL AS {variance}"]
    table = WEIGHTS + name.removeprefix(ESTIMATES)
    return (
        f"CREATE VIEW {quoted(name)} AS SELECT {', '.join([*kept, *true, *extra])} "
        f"FROM {quoted(RELEASE)} AS r JOIN {quoted(table)} AS w ON {' AND '.join(on)}"
    )


def names_of(weights: tuple[UnitWeights, ...]) -> list[str]:
    """What follows "weights" and "estimates" in the names of each unit's table and view: nothing where it is one."""
    return [""] if len(weights) == 1 else ["_" + "_".join(w.columns) for w in weights]


def _write(contents: Contents, ingest: Ingest, run: Callable[[str], object], same: str) -> None:
    """All tables and views, in an order in which they can be made."""
    ingest(RELEASE, contents.schema, contents.rows())
    if contents.side is not None:
        side = flat(contents.side)
        ingest(SIDE, side.schema, iter(side.to_batches()))
    for ending, weights in zip(names_of(contents.weights), contents.weights, strict=True):
        ingest(WEIGHTS + ending, weights.table.schema, iter(weights.table.to_batches()))
        run(view(weights, contents.schema.names, ESTIMATES + ending, same))
    about = pa.table({"key": list(contents.about), "value": list(contents.about.values())})
    ingest(ABOUT, about.schema, iter(about.to_batches()))


def to_duckdb(contents: Contents, path: Path) -> None:
    """A new DuckDB file."""
    try:
        with duckdb.connect(str(path)) as con:
            con.execute("SET enable_progress_bar=false")

            def ingest(name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
                con.register("given", pa.RecordBatchReader.from_batches(schema, batches))
                con.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM given")
                con.unregister("given")

            con.execute("BEGIN")
            _write(contents, ingest, con.execute, "IS NOT DISTINCT FROM")
            con.execute("COMMIT")
    except duckdb.Error:
        raise ReleaseError("DuckDB could not write the release; nothing was exported") from None


def to_sqlite(contents: Contents, path: Path) -> None:
    """A new SQLite file."""
    try:
        import adbc_driver_sqlite.dbapi as driver
    except ImportError:
        raise SpecError(MISSING, field="target") from None
    try:
        with driver.connect(f"file:{path}") as con, con.cursor() as cursor:
            _write(contents, _ingesting(cursor, _for_sqlite), cursor.execute, "IS")
            con.commit()
    except driver.Error:
        raise ReleaseError("SQLite could not write the release; nothing was exported") from None


def to_postgresql(contents: Contents, address: Address) -> None:
    """A new schema in a PostgreSQL database, in one transaction; it is named by ?table=, else sfumato_release."""
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        raise SpecError(MISSING, field="target") from None
    schema = address.table or SCHEMA
    try:
        con = driver.connect(address.uri)
    except driver.Error:
        raise ReleaseError(
            "the PostgreSQL server cannot be reached, or refuses the user; a password is read from PGPASSWORD, "
            "PGPASSFILE or ~/.pgpass"
        ) from None
    try:
        with con, con.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA {quoted(schema)}")
            cursor.execute(f"SET LOCAL search_path TO {quoted(schema)}")
            _write(contents, _ingesting(cursor, flat), cursor.execute, "IS NOT DISTINCT FROM")
            contents.release.check_unchanged()
            con.commit()
    except driver.Error as error:
        if error.sqlstate == "42P06":
            raise ReleaseError(
                f'the database has a schema "{schema}"; name another with ?table=NAME at the end of the address'
            ) from None
        raise ReleaseError("PostgreSQL could not write the release; nothing was exported") from None


def _ingesting(cursor: Any, made: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Ingest:
    """Streams batches into a new table."""

    def ingest(name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        empty = made(pa.RecordBatch.from_pylist([], schema=schema))
        reader = pa.RecordBatchReader.from_batches(empty.schema, (made(batch) for batch in batches))
        cursor.adbc_ingest(name, reader, mode="create")

    return ingest


def _for_sqlite(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dates and times as ISO texts, decimals as numbers, booleans as 0 and 1: what SQLite calculates with."""
    batch = flat(batch)
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        kind = field.type
        if pa.types.is_temporal(kind):
            kind = pa.string()
        elif pa.types.is_decimal(kind) or pa.types.is_floating(kind):
            kind = pa.float64()
        elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            kind = pa.string() if pa.types.is_uint64(kind) else pa.int64()  # a whole number of SQLite has a sign
        columns.append(column.cast(kind))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
