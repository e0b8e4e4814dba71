"""Databases that are servers: PostgreSQL through ADBC, and any other through its ODBC driver.

PostgreSQL: one REPEATABLE READ, READ ONLY transaction for all passes. What a type becomes is said here, for every type:
whole numbers, real numbers, booleans, texts, dates, times and bytes are what they are; `numeric` is an exact decimal;
everything else (uuid, arrays, json, enums, intervals, addresses, money) is the text that the server writes for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataError, SpecError
from ...model.types import MOST_DIGITS
from ..batches import Batches
from ..duckdb.connection import quoted
from ..files import PrivateCopy
from ..source import Address, Source
from . import MISSING, Moment, Snapshot, asked, state_error, state_of, table_name

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
    for field in schema:
        if pa.types.is_decimal(field.type) and field.type.precision > MOST_DIGITS:
            raise DataError(f'"{field.name}" has more than {MOST_DIGITS} digits; give it fewer in a query (--query)')


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
