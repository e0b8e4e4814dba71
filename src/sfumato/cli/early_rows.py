"""Files that are read while the command line is still being loaded and understood.

`sfumato publish FILE ...` will read all columns of a Parquet or CSV file, unless an option says otherwise. So reading
begins at once, beside loading what parses, plans and writes; where an option did say so, what was read is let go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..engines.contract import Engine
    from ..engines.duckdb.begun_table import BegunTable

OTHERWISE = ("--drop", "--engine", "--help", "--memory")  # other columns, or by others, or not at all
OTHER_TEXT = frozenset(  # the same of files of text: their cells mean something else
    (
        "--also",
        "--delimiter",
        "--encoding",
        "--null",
        "--decimal",
        "--dates",
        "--types",
        "--bins",
        "--round",
        "--top-code",
    )
)
LARGE = 1 << 20  # bytes, from which it pays

_begun: list[BegunTable] = []  # until the command has taken it


def begin(arguments: Sequence[str]) -> None:
    """Nothing; files are being read if these are the arguments of a command that will want them."""
    command, given = (*arguments[:2], "", "")[:2]
    if command != "publish":
        return
    if not given.endswith((".parquet", ".csv")) or any(a.startswith(OTHERWISE) for a in arguments):
        return
    if given.endswith(".csv") and any(a.partition("=")[0] in OTHER_TEXT for a in arguments):
        return
    with suppress(Exception):  # whatever it is: it may quote a cell, and is told by who opens the file next
        if os.path.getsize(given) >= LARGE:  # noqa: PTH202 - pathlib is not loaded yet
            from ..engines.duckdb import begun_connection

            prepare(begun_connection.begin)
            from ..engines.directory import engine_named
            from ..engines.duckdb.begun_table import begun
            from ..engines.duckdb.engine import LocalEngine
            from ..engines.source import source_of

            engine = engine_named()
            table = begun(engine, source_of(given), list) if isinstance(engine, LocalEngine) else None
            if table is not None:
                _begun.append(table)


def prepare(first: Callable[[], None] | None = None) -> None:
    """Nothing; libraries are loaded as one command needs them, and memory that is freed stays.

    `first` begins something that goes on beside loading the largest of them.
    """
    from ..lazily import one_command
    from .freed_memory import keep_freed_memory
    from .late_modules import load_late
    from .late_pandas import without_pandas

    load_late()
    if first is not None:
        first()
    one_command()
    keep_freed_memory()
    without_pandas()


def load_rest() -> None:
    """Nothing; what is needed once the rows are there is loaded, while they are read; also a database to count what
    was written."""
    from ..engines.duckdb import begun_connection
    from ..lazily import compute, parquet
    from ..publishing import streams

    streams.load()
    _ = compute.take, parquet.ParquetFile
    begun_connection.begin()


def reading(
    engine: Engine, source: Any, wanted: Callable[[Sequence[str]], Sequence[str]]
) -> AbstractContextManager[None]:
    """While it is open, rows are read beside other work (`engines.directory.read_ahead`), from the beginning if they
    are the ones that were begun."""
    from ..engines.directory import read_ahead

    while _begun:
        table = _begun.pop()
        if table.serves(engine, source, wanted):
            return read_ahead(engine, source, wanted, table)
        table.let_go()
    return read_ahead(engine, source, wanted)


def end() -> None:
    """Nothing is being read any more that no command took."""
    from ..engines.duckdb import begun_connection

    begun_connection.end()
    while _begun:
        _begun.pop().let_go()
