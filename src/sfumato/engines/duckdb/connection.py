"""The one place that opens DuckDB: in memory, silent, without a way to fetch extensions; sessions on a source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

import duckdb
import pyarrow as pa

from ...errors import DataError, EngineError, ReleaseError, SfumatoError, SpecError
from ...model.coarsening import Recoding
from ...model.public import Labels
from .. import scratch

PATTERN = frozenset("*?[]{}\\")  # DuckDB reads a name with one of these as a pattern, even where such a file exists
# Arrow would get bits as bytes of DuckDB's own, times without their zone, and 39 digits in 38
PLAIN = {"BIT": "VARCHAR", "TIME WITH TIME ZONE": "VARCHAR", "HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)"}

_open: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
_inherited: list[duckdb.DuckDBPyConnection] = []  # by a process that was forked off


def connect() -> duckdb.DuckDBPyConnection:
    """A private in-memory database."""
    con = duckdb.connect()
    _open.add(con)
    with suppress(duckdb.InvalidInputException):  # in a notebook without ipywidgets, where there is no bar to turn off
        con.execute("SET enable_progress_bar=false")  # it would write into --json output
    con.execute("SET autoinstall_known_extensions=false")
    con.execute("SET autoload_known_extensions=false")
    return con


if hasattr(os, "register_at_fork"):  # a database of the parent waits for threads that the child does not have
    os.register_at_fork(after_in_child=lambda: _inherited.extend(_open))


def quoted(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def plain_path(file: Path) -> str:
    """A path that DuckDB takes for this one file, whatever its name."""
    absolute = str(file.absolute())  # no "s3:" or "~" at its beginning
    return str(scratch.link(file)) if PATTERN & set(absolute) else absolute


def in_plain_types(rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The rows with what Arrow would change in silence as something that it keeps."""
    kinds = dict(zip(rows.columns, map(str, rows.types), strict=True))
    cells = (f"CAST({quoted(n)} AS {PLAIN[k]}) AS {quoted(n)}" if k in PLAIN else quoted(n) for n, k in kinds.items())
    return rows.project(", ".join(cells)) if PLAIN.keys() & set(kinds.values()) else rows


# --- sessions: limits, encrypted spill, the source bound as a view; errors that quote no cell


Bind = Callable[[duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]

# how DuckDB's errors begin, and Arrow's that pass them on
OUT_OF_MEMORY = re.compile(r"(\w+Exception: |Invalid: |IOError: )*(Out of Memory Error|malloc of size)")
VECTOR = 2048  # rows that DuckDB itself holds together
LEAST_MEMORY = 60e6  # below this DuckDB fails on any table


class Allowance(Protocol):
    """What an engine allows DuckDB."""

    memory: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SourceView:
    """How a session shows a source as its view `source`, and what is to be said about it.

    `bind` gives the source as a fresh relation on a connection, once per pass.
    """

    bind: Bind
    notes: tuple[str, ...] = ()  # for the custodian; they quote no cell
    labels: Mapping[str, Labels] = field(default_factory=dict)
    recoded: tuple[Recoding, ...] = ()  # columns that were made coarser
    utf8: bool = False  # the engine itself reads its texts, and so sees that they are UTF-8


def limited(allowed: Allowance, spill: str, taken: int = 0) -> duckdb.DuckDBPyConnection:
    """A private in-memory database with our limits and no access to the network or extensions.

    Of its memory so many bytes are taken by others; at least a quarter is left.
    """
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
    con.execute("SET force_mbedtls_unsafe=true")
    con.execute("SET temp_file_encryption=true")
    try:
        shown = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]  # as "1.3 GiB"
        number, unit = re.fullmatch(r"([0-9.]+) ?(bytes?|KiB|MiB|GiB|TiB|PiB)", shown.strip()).groups()  # type: ignore[union-attr]
        room = float(number) * 1024.0 ** "bKMGTP".index(unit[0])
    except duckdb.Error:  # too little even to say how little
        room = 0
    if room < LEAST_MEMORY:
        raise SpecError(f'memory "{allowed.memory}" is too small; give at least 64MB', field="memory")
    if taken:
        con.execute("SET memory_limit=?", [f"{int(max(room - taken, room / 4))}B"])
    con.execute("SET temp_directory=?", [spill])
    return con


@dataclass(frozen=True, slots=True)
class Session:
    """A connection with a source bound as the view `source`."""

    con: duckdb.DuckDBPyConnection

    @classmethod
    @contextmanager
    def open(cls, allowed: Allowance, view: SourceView | None = None, *, taken: int = 0) -> Iterator[Session]:
        """A session for the length of a block, with a spill folder that goes with it."""
        with scratch.folder("spill") as spill, limited(allowed, str(spill), taken) as con:
            if view is not None:
                try:
                    view.bind(con).create_view("source")
                except (duckdb.Error, pa.ArrowException) as error:
                    raise reading_error(error) from None
            yield cls(con)

    def query(self, sql: str) -> pa.Table:
        """The rows of a statement, as one piece."""
        try:
            return self.con.sql(sql).to_arrow_table().combine_chunks()
        except duckdb.Error as error:
            raise reading_error(error) from None

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a statement, few at a time: their texts may be long."""
        try:
            yield from self.con.sql(sql).to_arrow_reader(VECTOR)
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # the last of DuckDB's own, passed on by Arrow
            raise reading_error(error) from None


# --- errors: one line each, without the engine's own text, which may quote cells


def reading_error(error: Exception) -> SfumatoError:
    """What to say of a source that could not be read."""
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


def csv_error(error: Exception) -> DataError:
    """What to say of a CSV file that could not be read."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    where = f" (line {line.group(1)})" if line else ""
    if "Invalid unicode" in text:
        return DataError(f"the CSV file is not UTF-8 text{where}; say its encoding, for example --encoding latin-1")
    if "Expected Number of Columns" in text:
        return DataError(f"the CSV file is ragged: a line has more or fewer fields than the header{where}")
    if "unterminated quote" in text:
        return DataError(f"the CSV file has an unbalanced quote{where}")
    if "Maximum line size" in text:
        return DataError(f"the CSV file has a line of more than 2 MB{where}; leave its long text out, or write Parquet")
    if "invalid state" in text:
        return DataError(
            f"the CSV file has two kinds of line ends, or quotes where none may stand{where}; write it again"
        )
    if "GZIP" in text or "gzip" in text:
        return DataError("the compressed file is damaged or cut off")
    return DataError(f"the file cannot be read as CSV{where}")


def engine_error(error: Exception) -> SfumatoError:
    """What to say of an engine that failed."""
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
