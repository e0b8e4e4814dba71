"""DuckDB on a release: the reader's side of the local engine. It sees published files only."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

import duckdb
import pyarrow as pa
from sqlglot import exp

from ...errors import QueryError, ReleaseError
from .. import scratch
from ..codes import unreadable_dates
from ..source import MEMORY
from ..statements import COUNT
from .connection import connect, plain_path, quoted

# Steps of DuckDB's optimizer that believe what a Parquet file says of its own columns: they skip row groups, answer
# from the least and largest value that is stated, or count in too small an array. A stranger may state anything. (top_n
# does so too, but ORDER BY and LIMIT are for answers: no statement of ours orders published rows.)
BY_STATISTICS = "filter_pushdown,statistics_propagation,join_filter_pushdown"

REFUSED = (duckdb.BinderException, duckdb.ConversionException, duckdb.ParserException, duckdb.CatalogException)


class DuckDBReader:
    """Runs SQL over data.parquet or its parts, confined to these files; threads that share it wait for each other."""

    def __init__(self, data: Sequence[Path] | pa.Table, *, memory: str = MEMORY) -> None:
        """`data` as a table: rows in memory, which no file holds. Beyond `memory` rows spill to the private folder."""
        self._lock = Lock()  # a connection serves one thread, and small tables of two questions have the same names
        held = isinstance(data, pa.Table)
        paths = [] if held else [plain_path(file.resolve()).replace("'", "''") for file in data]
        files = "[" + ", ".join(f"'{path}'" for path in paths) + "]"
        con = self._con = connect()
        con.execute(f"SET disabled_optimizers='{BY_STATISTICS}'")
        con.execute("SET memory_limit=?", [memory])
        con.execute("SET temp_directory=?", [str(scratch.run_folder() / f"spill-{secrets.token_hex(8)}")])
        con.execute("SET parquet_metadata_cache=true")  # footers are read once, not for every statement
        con.execute(f"SET allowed_paths={files}")
        con.execute("SET enable_external_access=false")
        con.execute("SET lock_configuration=true")
        try:
            if held:
                con.register("given", data)
                con.execute("CREATE TABLE release AS SELECT * FROM given")
                con.unregister("given")
            else:
                given = f"read_parquet({files}, hive_partitioning = false)"
                con.execute(f"CREATE VIEW release AS SELECT * FROM {given}")
            self.columns = tuple(name for name, *_ in con.execute("DESCRIBE release").fetchall())
        except duckdb.Error:
            raise ReleaseError("data.parquet cannot be read; the release is damaged") from None

    def source(self) -> tuple[str, str | None]:
        """The published rows themselves."""
        return "release", None

    def run(
        self, statement: exp.Query, *, text: str | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        return self._run(statement.sql(dialect="duckdb"), text, tables or {})

    def count(self, columns: Sequence[str]) -> pa.Table:
        """Written out, without the parser: checking a release needs nothing else of it."""
        names = "".join(f"{quoted(name)}, " for name in columns)
        return self._run(f"SELECT {names}count(*) AS {COUNT} FROM release{' GROUP BY ALL' if names else ''}", None, {})

    def _run(self, sql: str, text: str | None, tables: Mapping[str, pa.Table]) -> pa.Table:
        with self._lock:
            for name, table in tables.items():
                self._con.register(name, table)
            try:
                found = self._con.sql(sql).to_arrow_table().combine_chunks()
            except duckdb.Error as error:
                does = "cannot evaluate" if isinstance(error, REFUSED) else "failed on"
                reason = str(error).split("\n")[0].split(": ", 1)[-1]
                raise QueryError(f"DuckDB {does} this question: {reason}", sql=text) from None
            finally:
                for name in tables:
                    self._con.unregister(name)
        check_dates(found, text)
        return found


def check_dates(found: pa.Table, text: str | None) -> None:
    """Raise QueryError where an answer holds a date that Python cannot hold."""
    if unreadable_dates(found):
        raise QueryError("the question leads to a date outside the years 1 to 9999", sql=text)
