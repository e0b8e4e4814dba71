"""DuckDB on a release: the reader's side of the local engine. It sees published files only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from ...errors import QueryError, ReleaseError
from ...model.types import ColumnType
from ..codes import unreadable_dates
from .connection import arrow_types, connect, plain_path, quoted

if TYPE_CHECKING:  # the first count of a release that nobody asks SQL of needs no parser
    from sqlglot import exp

CELLS_AFTER = 2  # questions asked of an open release before its distinct cells are counted once and kept
CELLS_SHARE = 0.5  # ... if they are at most this share of the rows
WEIGHT = "__n__"


class DuckDBReader:
    """Runs SQL over data.parquet or its parts, confined to these files."""

    def __init__(self, data: Sequence[Path], rows: int) -> None:
        self._rows, self._asked, self._cells = rows, 0, False
        self._con = connect()
        paths = [plain_path(file.resolve()).replace("'", "''") for file in data]
        files = "[" + ", ".join(f"'{path}'" for path in paths) + "]"
        self._con.execute(f"SET allowed_paths={files}")
        self._con.execute("SET enable_external_access=false")
        self._con.execute("SET lock_configuration=true")
        try:
            self._con.execute(f"CREATE VIEW release AS SELECT * FROM read_parquet({files}, hive_partitioning = false)")
            described = self._con.execute("DESCRIBE release").fetchall()
            self.columns = tuple(name for name, *_ in described)
            # lists say what their set's number says: questions look at the number
            self._plain = tuple(name for name, kind, *_ in described if not kind.endswith("[]"))
        except duckdb.Error:
            raise ReleaseError("data.parquet cannot be read; the release is damaged") from None

    def source(self) -> tuple[str, str | None]:
        """The rows, or their distinct cells once a few questions have been asked."""
        self._asked += 1
        if self._asked == CELLS_AFTER and not self._cells:
            self.collapse()
        return ("cells", WEIGHT) if self._cells else ("release", None)

    def collapse(self) -> bool:
        """Count the distinct cells once, where that pays; later questions run over them."""
        if not self._cells and self._rows > 10_000:
            names = ", ".join(quoted(name) for name in self._plain)
            distinct = self._con.execute(f"SELECT approx_count_distinct(hash({names})) FROM release").fetchall()[0][0]
            if distinct <= CELLS_SHARE * self._rows:
                self._con.execute(
                    f"CREATE TABLE cells AS SELECT {names}, count(*) AS {WEIGHT} FROM release GROUP BY ALL"
                )
                self._cells = True
        return self._cells

    def arrow_types(self, types: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
        return arrow_types(self._con, types)

    def run(
        self, statement: exp.Query, *, text: str | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        for name, table in (tables or {}).items():
            self._con.register(name, table)
        try:
            found = self._con.sql(statement.sql(dialect="duckdb")).to_arrow_table().combine_chunks()
        except (
            duckdb.BinderException,
            duckdb.ConversionException,
            duckdb.ParserException,
            duckdb.CatalogException,
        ) as error:
            reason = str(error).split("\n")[0].split(": ", 1)[-1]
            raise QueryError(f"DuckDB cannot evaluate this question: {reason}", sql=text) from None
        except duckdb.Error as error:
            reason = str(error).split("\n")[0].split(": ", 1)[-1]
            raise QueryError(f"DuckDB failed on this question: {reason}", sql=text) from None
        finally:
            for name in tables or {}:
                self._con.unregister(name)
        odd = unreadable_dates(found)
        if odd:
            raise QueryError("the question leads to a date outside the years 1 to 9999", sql=text)
        return found
