"""A table of a database as of one moment, and what to say when the database does not give it.

Messages of drivers may quote cells, addresses and passwords, so none of them is passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError, SpecError
from ..model.types import MOST_DIGITS
from .batches import Batches
from .duckdb.connection import in_plain_types, quoted
from .files import PrivateCopy, check_names
from .source import MORE_DIGITS, Address, Source

MISSING = "reading from databases needs the extra: pip install 'sfumato[databases]'"
_STATES = {
    "42P01": "the database has no such table, or the query names one that it does not have",
    "42S02": "the database has no such table, or the query names one that it does not have",
    "42S22": "the query names a column that the database does not have",
    "42000": "the query is not one SELECT that the database understands, or it may not be asked by this user",
    "42702": "the query names two columns alike; give each a name of its own (AS)",
    "42701": "the query names two columns alike; give each a name of its own (AS)",
    "0A000": "the query would change the database, or asks what it cannot do; it must be one SELECT",
    "25006": "the query would change the database; it must be one SELECT",
    "22012": "the query divides by zero in a row of the table",
    "42703": "the query names a column that the database does not have",
    "42601": "the query is not one SELECT that the database understands",
    "42501": "the database does not let this user read the table; she needs SELECT on it, and USAGE on its schema",
    "3D000": "the server has no such database",
    "28P01": "the server refused the user or the password",
    "28000": "the server refused the user or the password",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Snapshot:
    """The rows, read again each time, and SQL casts (of the engine) that bring columns into their types."""

    batches: Batches
    casts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def snapshot_of(address: Address, source: Source) -> Snapshot:
    """The rows that the address and the source ask for, as of now."""
    kinds = {
        "sqlite": sqlite_snapshot,
        "duckdb": duckdb_snapshot,
        "postgresql": postgresql_snapshot,
        "odbc": odbc_snapshot,
    }
    return kinds[address.kind](address, source)


class Moment:
    """A connection in one transaction, of which at most one cursor is being read; closed when nobody holds it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._open: Any = None

    def __del__(self) -> None:
        try:
            self._close()
            self._connection.close()
        except Exception:  # noqa: S110 - nothing is left to be said
            pass

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def table_name(name: str) -> str:
    """A table, with its schema before a point; quoted as people write it in SQL."""
    if '"' in name:
        return name if name.count('"') % 2 == 0 and ";" not in name else quoted(name)
    return ".".join(quoted(part) for part in name.split("."))


def asked(table: str | None, query: str | None, named: str | None, quoted_table: str) -> str:
    """The SELECT that gives the rows; SpecError where neither a table nor a query says which."""
    if named is not None and (table is not None or query is not None):
        raise SpecError("the address names a table, and so does an option; say it in one place", field="table")
    if query is not None:
        text = query.strip().rstrip(";").strip()
        if not text:
            raise SpecError("the query is empty", field="query")
        return text
    if table is None and named is None:
        raise SpecError(
            "a database holds many tables; name one with ?table=NAME at the end of the address or --table NAME, or "
            "give a query with --query",
            field="table",
        )
    return f"SELECT * FROM {quoted_table}"


def state_error(error: Exception) -> DataError:
    """One line for an error of a driver that tells its five-letter code."""
    return state_of(str(getattr(error, "sqlstate", None)))


def state_of(code: str) -> DataError:
    """One line for a five-letter code (SQLSTATE)."""
    return DataError(_STATES.get(code, "the database failed while it was read; nothing of its message is shown"))


# --- databases that are files: SQLite through ADBC, and DuckDB; both are opened for reading only
#
# SQLite: one transaction spans all passes. A cell of SQLite has its own type, whatever its column declares. All cells
# are looked at: whole numbers are BIGINT, with real ones among them DOUBLE; texts are VARCHAR, or dates where the
# column is declared so and every cell is one; bytes are BLOB. Numbers among texts become text, and a note says how
# many.


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
        """Raise DataError where there is no such table or view."""
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


# --- databases that are servers: PostgreSQL through ADBC, and any other through its ODBC driver
#
# PostgreSQL: one REPEATABLE READ, READ ONLY transaction for all passes. What a type becomes is said here, for every
# type: whole numbers, real numbers, booleans, texts, dates, times and bytes are what they are; `numeric` is an exact
# decimal; everything else (uuid, arrays, json, enums, intervals, addresses, money) is the text that the server writes
# for it.


KEPT = frozenset({"int2", "int4", "int8", "float4", "float8", "bool", "text", "varchar", "name"})
KEPT |= {"date", "time", "timestamp", "timestamptz", "bytea"}
ODD_NUMBERS = "'NaN', 'Infinity', '-Infinity'"
BEGIN = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL synchronize_seqscans = off",  # every pass in the same order
    "SET LOCAL max_parallel_workers_per_gather = 0",  # the same
    "SET LOCAL extra_float_digits = 1",
)
TYPE, DIGITS = b"POSTGRESQL:type", b"POSTGRESQL:typmod"


def postgresql_snapshot(address: Address, source: Source) -> Snapshot:
    """The rows that the address and the source ask for, as of now."""
    name = address.table if address.table is not None else source.table
    text = asked(source.table, source.query, address.table, table_name(name or ""))
    server = _Server(address)
    schema = server.schema(f"SELECT * FROM ({text}\n) AS source LIMIT 0")
    numeric = [f.name for f in schema if _type(f) == "numeric"]
    digits = {f.name: _digits(f) for f in schema if _type(f) == "numeric"}
    unknown = [n for n in numeric if digits[n] is None]
    if numeric:
        digits |= server.measured(text, numeric, unknown)
    cells = [
        quoted(f.name) if _type(f) in KEPT else f"CAST({quoted(f.name)} AS text) AS {quoted(f.name)}" for f in schema
    ]
    rows = f"SELECT {', '.join(cells)} FROM ({text}\n) AS source"
    casts = {n: "DECIMAL({},{})".format(*_fitting(n, digits[n])) for n in numeric}
    plain = pa.schema([f.remove_metadata() for f in server.schema(f"{rows} LIMIT 0")])
    return Snapshot(batches=Batches(plain, lambda: server.rows(rows, plain)), casts=casts)


def _type(field: pa.Field) -> str:
    return (field.metadata or {}).get(TYPE, b"").decode()


def _digits(field: pa.Field) -> tuple[int, int] | None:
    """(precision, scale) that the column is declared with; None: any."""
    modifier = int((field.metadata or {}).get(DIGITS, b"-1"))
    if modifier < 4:
        return None
    scale = (modifier - 4) & 0x7FF
    return ((modifier - 4) >> 16) & 0xFFFF, scale - 2048 if scale >= 1024 else scale


def _fitting(name: str, digits: tuple[int, int] | None) -> tuple[int, int]:
    precision, scale = digits or (1, 0)
    precision, scale = max(precision - min(scale, 0), scale, 1), max(scale, 0)
    if precision > MOST_DIGITS:
        raise DataError(
            f'"{name}" is numeric with more than {MOST_DIGITS} digits; give it fewer, or make it a double precision '
            "number, in a query (--query)",
            column=name,
        )
    return precision, scale


class _Server(Moment):
    """A connection in one transaction; cursors of it see one moment."""

    def __init__(self, address: Address) -> None:
        try:
            import adbc_driver_postgresql.dbapi as driver
        except ImportError:
            raise SpecError(MISSING, field="source") from None
        self._error = driver.Error
        try:
            super().__init__(driver.connect(address.uri))
        except driver.Error as error:
            raise _no_server(error) from None
        try:
            with self._connection.cursor() as cursor:
                for statement in BEGIN:
                    cursor.execute(statement)
        except driver.Error as error:
            raise state_error(error) from None

    def schema(self, text: str) -> pa.Schema:
        """The columns of a query, with what the server says of their types."""
        self._close()
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(text)
                return cursor.fetch_record_batch().schema
        except self._error as error:
            raise state_error(error) from None

    def measured(self, text: str, numeric: list[str], unknown: list[str]) -> dict[str, tuple[int, int]]:
        """(precision, scale) that the values of columns need which are declared without; odd values are refused."""
        parts = [f"count(*) FILTER (WHERE CAST({quoted(n)} AS text) IN ({ODD_NUMBERS}))" for n in numeric]
        for name in unknown:
            cell = quoted(name)
            parts.append(f"coalesce(max(scale({cell})), 0)")
            parts.append(f"coalesce(max(length(CAST(trunc(abs({cell})) AS text))), 1)")
        self._close()
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT {', '.join(parts)} FROM ({text}\n) AS source")
                found = [int(cell) for cell in cursor.fetchall()[0]]
        except self._error as error:
            raise state_error(error) from None
        for name, odd in zip(numeric, found, strict=False):
            if odd:
                raise DataError(f'{odd} rows of "{name}" are NaN or infinite; turn them into null', column=name)
        rest = found[len(numeric) :]
        return {n: (rest[2 * i + 1] + rest[2 * i], rest[2 * i]) for i, n in enumerate(unknown)}

    def rows(self, text: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All rows, from the first; one reading at a time."""
        self._close()
        cursor = self._open = self._connection.cursor()
        try:
            cursor.execute(text)
            for batch in cursor.fetch_record_batch():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except (self._error, pa.ArrowException) as error:
            raise state_error(error) from None
        finally:
            if self._open is cursor:
                self._close()


def _no_server(error: Exception) -> DataError:
    text = str(error)
    if "authentication failed" in text or "no password" in text or "pg_hba" in text:
        return DataError(
            "the PostgreSQL server refused the user or the password; libpq's places for it are PGPASSWORD, the file "
            "that PGPASSFILE names, and ~/.pgpass"
        )
    if "does not exist" in text and "database" in text:
        return DataError("the PostgreSQL server has no such database, or no such user")
    return DataError("no PostgreSQL server answers at this address; check host, port, and whether it runs")


# --- any database with an ODBC driver, through arrow-odbc
#
# ODBC has no snapshot that all drivers know, so the database is asked once, by one SELECT, and both passes read a
# private copy of its rows.


NO_ODBC = "reading through ODBC needs the extra: pip install 'sfumato[odbc]', and the database's ODBC driver"
COPIED = "the database was asked once; its rows were copied to the private folder"
ODBC_BATCH = 16_384
LONGEST = 1 << 16  # characters of a cell; a longer one is refused by the library, never cut
STATE = "State: "  # before the five letters in a message


def odbc_snapshot(address: Address, source: Source) -> Snapshot:
    """The rows that the address and the source ask for, from a copy."""
    try:
        import arrow_odbc as library
    except ImportError:
        raise SpecError(NO_ODBC, field="source") from None
    name = address.table if address.table is not None else source.table
    text = asked(source.table, source.query, address.table, table_name(name or ""))
    try:
        connection = library.connect(address.uri)
    except library.Error as error:
        raise _unreachable(error) from None
    try:
        found = connection.read_arrow_batches(
            text,
            batch_size=ODBC_BATCH,
            max_text_size=LONGEST,
            max_binary_size=LONGEST,
            falliable_allocations=True,
            payload_text_encoding=library.TextEncoding.UTF16,  # whatever the machine's locale is
        )
        schema = found.schema
        _check_digits(schema)
        copy = PrivateCopy()
        path = copy.rows(schema, found)
    except library.Error as error:
        raise state_of(_state(error)) from None

    def rows(_: object = copy) -> Iterator[pa.RecordBatch]:
        yield from pq.ParquetFile(path).iter_batches()

    kept = pq.read_schema(path).remove_metadata()
    return Snapshot(batches=Batches(kept, rows), notes=(COPIED,))


def _check_digits(schema: pa.Schema) -> None:
    for column in schema:
        if pa.types.is_decimal(column.type) and column.type.precision > MOST_DIGITS:
            raise DataError(f'"{column.name}" has more than {MOST_DIGITS} digits; give it fewer in a query (--query)')


def _state(error: Exception) -> str:
    """SQLSTATE of the first record in a message; nothing else of it is looked at."""
    return str(error).partition(STATE)[2][:5]


def _unreachable(error: Exception) -> DataError:
    match _state(error):
        case "IM002" | "IM003" | "01000":
            return DataError(
                "ODBC knows no such data source or driver; `odbcinst -q -d` and `odbcinst -q -s` list them"
            )
        case "28000" | "28P01":
            return DataError("the database refused the user or the password; ~/.odbc.ini may hold them")
    return DataError("no database answers at this address; check its name, its host, and whether it runs")
