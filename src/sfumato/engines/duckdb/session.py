"""A connection of the local engine: limits, encrypted spill, the source bound; errors that quote no cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event
from typing import Protocol

import duckdb
import pyarrow as pa

from ...errors import DataError, EngineError, ReleaseError, SfumatoError, SpecError
from .. import scratch
from .bound import Bind
from .connection import connect
from .csv_errors import csv_error

# how DuckDB's errors begin, and Arrow's that pass them on
OUT_OF_MEMORY = re.compile(r"(\w+Exception: |Invalid: |IOError: )*(Out of Memory Error|malloc of size)")
LEAST_MEMORY = 60e6  # below this DuckDB fails on any table


class Allowance(Protocol):
    """What an engine allows DuckDB."""

    memory: str
    threads: int
    encrypted_spill: bool
    stop: Event  # set: nobody waits any more for what is being read


def limited(allowed: Allowance, spill: str) -> duckdb.DuckDBPyConnection:
    """A private in-memory database with our limits and no access to the network or extensions."""
    con = connect()
    con.execute(f"SET threads={int(allowed.threads)}")
    try:
        if str(allowed.memory).strip().startswith("-"):  # DuckDB takes it for "no limit"
            raise duckdb.ParserException
        con.execute("SET memory_limit=?", [allowed.memory])
    except duckdb.Error:
        raise SpecError(f'memory must be a size such as 2GB, got "{allowed.memory}"', field="memory") from None
    # What spills is encrypted under a key that dies with the process. DuckDB brings no generator of its own that it
    # would call secure for this, hence the name of the switch; docs/limitations.md says so.
    if allowed.encrypted_spill:
        con.execute("SET force_mbedtls_unsafe=true")
        con.execute("SET temp_file_encryption=true")
    try:
        enough = _allowed(con) >= LEAST_MEMORY
    except duckdb.Error:  # too little even to say how little
        enough = False
    if not enough:
        raise SpecError(f'memory "{allowed.memory}" is too small; give at least 64MB', field="memory")
    con.execute("SET temp_directory=?", [spill])
    return con


class Session:
    """A connection with the source bound as `source`, and a spill folder that goes with it."""

    def __init__(self, allowed: Allowance, bind: Bind | None) -> None:
        self._allowed, self._bind = allowed, bind

    def __enter__(self) -> Session:
        with ExitStack() as stack:  # undone here when binding fails, kept for __exit__ when it does not
            spill = stack.enter_context(scratch.folder("spill"))
            self.con = stack.enter_context(limited(self._allowed, str(spill)))
            self.bind()
            self._stack = stack.pop_all()
        return self

    def bind(self) -> None:
        """Nothing; the source is bound, as fresh rows where it was before."""
        if self._bind is None:
            return
        try:
            self.source = self._bind(self.con)
            self.source.create_view("source", replace=True)
        except (duckdb.Error, pa.ArrowException) as error:
            raise reading_error(error) from None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is left of it."""
        self._stack.close()

    def room(self) -> float:
        """Bytes that the engine may hold."""
        return _allowed(self.con)

    def leave(self, taken: int) -> None:
        """Nothing; the engine holds so many bytes less."""
        self.con.execute("SET memory_limit=?", [f"{int(left(self.room(), taken))}B"])

    def query(self, sql: str) -> Rows:
        return Rows(self.con, sql)

    def run(self, sql: str) -> None:
        try:
            self.con.execute(sql)
        except duckdb.Error as error:
            raise reading_error(error) from None


class Rows:
    """A relation whose errors do not quote the table."""

    def __init__(self, con: duckdb.DuckDBPyConnection, sql: str) -> None:
        self._con, self._sql = con, sql

    def to_arrow_table(self) -> pa.Table:
        try:
            return self._con.sql(self._sql).to_arrow_table()
        except duckdb.Error as error:
            raise reading_error(error) from None

    def to_arrow_reader(self, rows: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._con.sql(self._sql).to_arrow_reader(rows)
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # the last of DuckDB's own, passed on by Arrow
            raise reading_error(error) from None


def left(room: float, taken: int) -> float:
    """Bytes of the room where so many are taken, but at least a quarter of it."""
    return max(room - taken, room / 4)


def _allowed(con: duckdb.DuckDBPyConnection) -> float:
    return _bytes(con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])


def _bytes(shown: str) -> float:
    """What DuckDB shows as "1.3 GiB"."""
    number, unit = re.fullmatch(r"([0-9.]+) ?(bytes?|KiB|MiB|GiB|TiB|PiB)", shown.strip()).groups()  # type: ignore[union-attr]
    return float(number) * 1024.0 ** ["b", "K", "M", "G", "T", "P"].index(unit[0])


def reading_error(error: Exception) -> SfumatoError:
    text = str(error)
    own = re.search(r"\nsfumato\.errors\.DataError: (.+)\s*$", text)
    if own:  # of a source of batches, in our own words
        return DataError(own[1])
    if out_of_memory(error):  # whose text may name CSV, and says what it could not do
        return engine_error(error)
    if "Arrow source failed" in text:
        return DataError("the source failed while its rows were read; nothing was published")
    if "CSV" in text:
        return csv_error(error)
    if isinstance(error, duckdb.NotImplementedException):
        return DataError("a column has a type that cannot be read; turn it into plain numbers, text or dates")
    damaged = ("could not", "not a valid", "magic bytes", "parquet", "thrift", "protocol")
    if isinstance(error, duckdb.InvalidInputException) or any(sign in text.lower() for sign in damaged):
        return DataError("the file is damaged or not of the kind its name says")
    return engine_error(error)


def engine_error(error: Exception) -> SfumatoError:
    """One line, without the engine's own text: it may quote cells."""
    text = str(error)
    if "No space left" in text or getattr(error, "errno", None) == 28:
        return ReleaseError("the disk is full: no space left on device; nothing was published")
    if out_of_memory(error):
        return EngineError("the engine ran out of memory; give it more with --memory, or free disk space for spilling")
    if isinstance(error, OSError | duckdb.IOException):
        return ReleaseError("reading or writing failed in the operating system; nothing was published")
    return EngineError(f"the engine failed ({type(error).__name__}); run with --debug for the details")


def out_of_memory(error: Exception) -> bool:
    """Whether a library says that it had too little; in its own words, as what it quotes may speak of memory too."""
    return isinstance(error, duckdb.OutOfMemoryException | MemoryError) or OUT_OF_MEMORY.match(str(error)) is not None
