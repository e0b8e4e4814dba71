"""A database that is opened, which takes a fortieth of a second, while a command loads what will ask it."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_begun: list[EarlyConnection] = []  # until somebody has taken it


class EarlyConnection:
    """A database in memory; a thread opens it."""

    def __init__(self) -> None:
        self._found: duckdb.DuckDBPyConnection | None = None
        self._thread = Thread(target=self._connect, daemon=True)
        self._thread.start()

    def _connect(self) -> None:
        import duckdb

        with suppress(duckdb.Error):
            self._found = duckdb.connect()

    def result(self) -> duckdb.DuckDBPyConnection | None:
        """It, or None where it could not be opened."""
        self._thread.join()
        return self._found


def begin() -> None:
    """Nothing; a database is being opened."""
    import duckdb  # noqa: F401 - code is loaded by one thread at a time

    _begun.append(EarlyConnection())


def taken() -> duckdb.DuckDBPyConnection | None:
    """The database that was being opened; None where none was, or it has been taken."""
    return _begun.pop().result() if _begun else None


def end() -> None:
    """No database is held any more that nobody took."""
    while (found := taken()) is not None:
        found.close()
