"""A table of a database as of one moment, and what to say when the database does not give it.

Messages of drivers may quote cells, addresses and passwords, so none of them is passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import DataError, SpecError
from ..batches import Batches
from ..duckdb.connection import quoted
from ..source import Address, Source

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
    from .database_files import duckdb_snapshot, sqlite_snapshot
    from .servers import odbc_snapshot, postgresql_snapshot

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
