"""Any database with an ODBC driver, through arrow-odbc: one SELECT, whose rows are kept in a private copy.

ODBC has no snapshot that all drivers know, so the database is asked once and both passes read the copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataError, SpecError
from ...model.types import MOST_DIGITS
from ..batches import Batches
from ..files import PrivateCopy
from ..source import Address, Source
from .postgresql import table_name
from .snapshot import Snapshot, asked, state_of

MISSING = "reading through ODBC needs the extra: pip install 'sfumato[odbc]', and the database's ODBC driver"
COPIED = "the database was asked once; its rows were copied to the private folder"
BATCH = 16_384
LONGEST = 1 << 16  # characters of a cell; a longer one is refused by the library, never cut
STATE = "State: "  # before the five letters in a message


def snapshot(address: Address, source: Source) -> Snapshot:
    """The rows that the address and the source ask for, from a copy."""
    try:
        import arrow_odbc as library
    except ImportError:
        raise SpecError(MISSING, field="source") from None
    name = address.table if address.table is not None else source.table
    text = asked(source.table, source.query, address.table, table_name(name or ""))
    try:
        connection = library.connect(address.uri)
    except library.Error as error:
        raise _unreachable(error) from None
    try:
        found = connection.read_arrow_batches(
            text,
            batch_size=BATCH,
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
