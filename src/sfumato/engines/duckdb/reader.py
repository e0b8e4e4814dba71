"""DuckDB on a release: the reader's side of the local engine. It sees published files only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

import duckdb
import pyarrow as pa

from ...errors import QueryError, ReleaseError
from ...lazily import exp
from ...model.types import ColumnType
from ..codes import unreadable_dates
from ..statements import COUNT
from ..turns import in_turn
from .connection import arrow_types, connect, plain_path, quoted


class DuckDBReader:
    """Runs SQL over data.parquet or its parts, confined to these files; threads that share it wait for each other."""

    def __init__(self, data: Sequence[Path] | pa.Table) -> None:
        """`data` as a table: rows in memory, which no file holds."""
        self.turn = RLock()  # held by the thread whose statement runs
        held = isinstance(data, pa.Table)
        paths = [] if held else [plain_path(file.resolve()).replace("'", "''") for file in data]
        files = "[" + ", ".join(f"'{path}'" for path in paths) + "]"
        self._con = self._confined(files)
        try:
            if held:
                self._con.register("given", data)
                self._con.execute("CREATE TABLE release AS SELECT * FROM given")
                self._con.unregister("given")
            else:
                given = f"read_parquet({files}, hive_partitioning = false)"
                self._con.execute(f"CREATE VIEW release AS SELECT * FROM {given}")
            self.columns = tuple(name for name, *_ in self._con.execute("DESCRIBE release").fetchall())
        except duckdb.Error:
            raise ReleaseError("data.parquet cannot be read; the release is damaged") from None

    def _confined(self, files: str) -> duckdb.DuckDBPyConnection:
        """A database that reads these files and no others, whatever a statement says."""
        con = connect()
        con.execute("SET parquet_metadata_cache=true")  # footers are read once, not for every statement
        con.execute(f"SET allowed_paths={files}")
        con.execute("SET enable_external_access=false")
        con.execute("SET lock_configuration=true")
        return con

    def source(self) -> tuple[str, str | None]:
        """The published rows themselves."""
        return "release", None

    @in_turn
    def arrow_types(self, types: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
        return arrow_types(self._con, types)

    @in_turn
    def run(
        self, statement: exp.Query, *, text: str | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        return self._run(statement.sql(dialect="duckdb"), text, tables or {})

    @in_turn
    def count(self, columns: Sequence[str]) -> pa.Table:
        """Written out, without the parser: checking a release needs nothing else of it."""
        names = "".join(f"{quoted(name)}, " for name in columns)
        return self._run(f"SELECT {names}count(*) AS {COUNT} FROM release{' GROUP BY ALL' if names else ''}", None, {})

    def _run(self, sql: str, text: str | None, tables: Mapping[str, pa.Table]) -> pa.Table:
        for name, table in tables.items():
            self._con.register(name, table)
        try:
            with _told(text):
                found = self._con.sql(sql).to_arrow_table().combine_chunks()
        finally:
            for name in tables:
                self._con.unregister(name)
        odd = unreadable_dates(found)
        if odd:
            raise QueryError("the question leads to a date outside the years 1 to 9999", sql=text)
        return found


@contextmanager
def _told(text: str | None) -> Iterator[None]:
    """What DuckDB refuses in a statement, or fails on, as a QueryError about a text."""
    try:
        yield
    except (
        duckdb.BinderException,
        duckdb.ConversionException,
        duckdb.ParserException,
        duckdb.CatalogException,
    ) as error:
        raise QueryError(f"DuckDB cannot evaluate this question: {_reason(error)}", sql=text) from None
    except duckdb.Error as error:
        raise QueryError(f"DuckDB failed on this question: {_reason(error)}", sql=text) from None


def _reason(error: duckdb.Error) -> str:
    return str(error).split("\n")[0].split(": ", 1)[-1]
