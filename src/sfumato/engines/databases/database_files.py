"""Databases that are files: SQLite through ADBC, and DuckDB. Both are opened for reading only.

SQLite: one transaction spans all passes. A cell of SQLite has its own type, whatever its column declares. All cells are
looked at: whole numbers are BIGINT, with real ones among them DOUBLE; texts are VARCHAR, or dates where the column is
declared so and every cell is one; bytes are BLOB. Numbers among texts become text, and a note says how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa

from ...errors import DataError, SpecError
from ..batches import Batches
from ..duckdb.connection import in_plain_types, quoted
from ..files import check_names
from ..source import MORE_DIGITS, Address, Source
from . import MISSING, Moment, Snapshot, asked, table_name

KINDS = ("integer", "real", "text", "blob")
SQLITE_BATCH = 65_536
EXACT = 2**53  # up to here every whole number is a real one
# SQL of a cell, a value that stands for its type in a first row (the driver takes types from the first rows), and
# Arrow's type
_AS = {
    "integer": ("CAST({} AS INTEGER)", "0", pa.int64()),
    "real": ("CAST({} AS REAL)", "0.5", pa.float64()),
    "text": ("CAST({} AS TEXT)", "'x'", pa.string()),
    "blob": ("{}", "x'00'", pa.binary()),
}
_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_DAYS = f"{{0}} GLOB '{_DAY}' AND date({{0}}) = {{0}} AND {{0}} >= '0001'"
_MOMENTS = f"{{0}} GLOB '{_DAY}[ T][0-9][0-9]:[0-9][0-9]*' AND date({{0}}) = substr({{0}}, 1, 10) AND {{0}} >= '0001' "
_MOMENTS += "AND substr({0}, 12, 2) < '24' AND time({0}) IS NOT NULL AND (length({0}) = 16 OR substr({0}, 17) GLOB "
_MOMENTS += "':[0-9][0-9]' OR substr({0}, 17) GLOB ':[0-9][0-9].[0-9]*' AND substr({0}, 21) NOT GLOB '*[^0-9]*' "
_MOMENTS += "AND length({0}) <= 26)"
# a day of the calendar, or a moment without a zone and without a digit that would be lost
_DATES = {"DATE": ("DATE", _DAYS), "TIMESTAMP": ("TIMESTAMP", _MOMENTS)}
_DATES["DATETIME"] = _DATES["TIMESTAMP"]


def sqlite_snapshot(address: Address, source: Source) -> Snapshot:
    """The rows that the address and the source ask for, as of now."""
    name = address.table if address.table is not None else source.table
    text = asked(source.table, source.query, address.table, quoted(name or ""))
    database = _SQLite(address)
    if source.query is None and name is not None:
        database.check_table(name)
    names = database.names(text)
    check_names(names, "the query")
    declared = database.declared(name) if name is not None else {}
    kinds, casts, notes = database.kinds(text, names, declared)
    cells = ", ".join(f"{_AS[kinds[n]][0].format(quoted(n))} AS {quoted(n)}" for n in names)
    first = ", ".join(f"{_AS[kinds[n]][1]} AS {quoted(n)}" for n in names)
    rows = f"SELECT {first} UNION ALL SELECT {cells} FROM ({text}\n)"
    schema = pa.schema([pa.field(n, _AS[kinds[n]][2]) for n in names])
    return Snapshot(batches=Batches(schema, lambda: database.rows(rows, schema)), casts=casts, notes=tuple(notes))


class _SQLite(Moment):
    """A connection in one transaction."""

    def __init__(self, address: Address) -> None:
        try:
            import adbc_driver_sqlite.dbapi as driver
        except ImportError:
            raise SpecError(MISSING, field="source") from None
        assert address.path is not None
        said = f'"{address.path.name}"'
        try:
            with address.path.open("rb") as handle:
                sign = handle.read(16)
        except OSError as error:
            raise DataError(f"cannot read {said}: {error.strerror}") from None
        if sign != b"SQLite format 3\x00":
            raise DataError(f"{said} is not a SQLite database, or an empty one")
        self._error = driver.Error
        try:
            super().__init__(driver.connect(f"file:{quote(str(address.path.absolute()))}?mode=ro"))
            self._one("SELECT count(*) FROM sqlite_master")  # the moment that all passes see
        except driver.Error:
            raise DataError(f"{said} cannot be read: it is damaged, locked by another program, or encrypted") from None

    def _one(self, text: str) -> list[tuple[Any, ...]]:
        self._close()
        with self._connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def _asked(self, text: str) -> list[tuple[Any, ...]]:
        try:
            return self._one(text)
        except self._error:
            raise DataError("the query is not one SELECT that SQLite can answer, or the database is damaged") from None

    def check_table(self, name: str) -> None:
        """Nothing; DataError where there is no such table or view."""
        known = [n for (n,) in self._asked("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
        if name.lower() not in {n.lower() for n in known}:
            shown = ", ".join(sorted(known)[:10]) or "none"
            raise DataError(f'the database has no table "{name}"; its tables: {shown}')

    def names(self, text: str) -> list[str]:
        """Names of the columns of a query, as they stand in it: asked around it, SQLite makes up others for twins."""
        self._close()
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({text}\n) LIMIT 0")
            with self._connection.cursor() as cursor:
                cursor.execute(text)
                return [str(column[0]) for column in cursor.description or ()]
        except self._error:
            raise DataError("the query is not one SELECT that SQLite can answer, or the database is damaged") from None

    def declared(self, table: str) -> dict[str, str]:
        """Types that the columns of a table are declared with, without their lengths."""
        literal = table.replace("'", "''")
        found = self._asked(f"SELECT name, type FROM pragma_table_info('{literal}')")
        return {str(name): str(kind or "").upper().partition("(")[0].strip() for name, kind in found}

    def kinds(
        self, text: str, names: list[str], declared: dict[str, str]
    ) -> tuple[dict[str, str], dict[str, str], list[str]]:
        """(storage of every column, casts of those that are more than their storage, notes), from all cells."""
        tests = []
        for name in names:
            cell = quoted(name)
            tests += [f"sum(typeof({cell}) = '{kind}')" for kind in KINDS]
            fits = _DATES.get(declared.get(name, ""), ("", ""))[1]
            tests.append(f"sum(typeof({cell}) = 'text' AND {fits.format(cell)})" if fits else "0")
            tests.append(f"sum(typeof({cell}) = 'integer' AND {cell} IN (0, 1))")
            tests.append(f"sum(typeof({cell}) = 'integer' AND abs({cell} / 2) > {EXACT // 2})")
        found = [int(cell or 0) for cell in self._asked(f"SELECT {', '.join(tests)} FROM ({text}\n)")[0]]
        kinds, casts, notes = {}, {}, []
        for i, name in enumerate(names):
            whole, real, texts, blobs, dates, bits, wide = found[7 * i : 7 * i + 7]
            if blobs and (whole or real or texts):
                raise DataError(f'column "{name}" holds bytes among other values; leave it out', column=name)
            kinds[name] = "blob" if blobs else "text" if texts or not whole + real else "real" if real else "integer"
            if real and wide and not texts:
                kinds[name] = "text"
                notes.append(f'"{name}" {MORE_DIGITS}')
            if texts and (whole or real):
                few, of = (texts, "texts") if texts < whole + real else (whole + real, "numbers")
                notes.append(f'"{name}" is read as text: {few:,} of its cells are {of} and all others are not')
            if texts and dates == texts and not whole + real:
                casts[name] = _DATES[declared[name]][0]
            if declared.get(name) in {"BOOLEAN", "BOOL"} and whole and bits == whole and not real + texts:
                casts[name] = "BOOLEAN"
        return kinds, casts, notes

    def rows(self, text: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All rows but the first, which says the types."""
        self._close()
        cursor = self._open = self._connection.cursor()
        try:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(SQLITE_BATCH)})
            cursor.execute(text)
            skip = 1
            for batch in cursor.fetch_record_batch():
                yield pa.RecordBatch.from_arrays(batch.slice(skip).columns, schema=schema)
                skip = 0
        except (self._error, pa.ArrowException):
            raise DataError("the SQLite database failed while it was read; it may be damaged") from None
        finally:
            if self._open is cursor:
                self._close()


# --- DuckDB files: opened for reading only and held open, so that nobody changes them between the passes


DUCKDB_BATCH = 65_536


def duckdb_snapshot(address: Address, source: Source) -> Snapshot:
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
            yield from asked_again().to_arrow_reader(DUCKDB_BATCH)
        except (duckdb.Error, pa.ArrowException):
            raise DataError("the DuckDB database failed while it was read; it may be damaged") from None

    return Snapshot(batches=Batches(found, rows))
