"""Spark on a release: the reader's side."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
from sqlglot import exp

from ...errors import QueryError, ReleaseError, SfumatoError
from ...model.types import ColumnType
from ..codes import unreadable_dates
from ..duckdb.connection import arrow_types, connect
from ..statements import WEIGHT, columns_of, counted, over_rows
from .session import plainly
from .sources import addresses

MOST_CELLS = 2_000_000  # distinct cells of the columns of a question that are brought here
_KIND = re.compile(r"\[([A-Z_]+)")


class SparkReader:
    """Runs SQL over the published rows: Spark counts the distinct cells of the columns that a question names, and what
    the question says about them is evaluated here, by the same engine and in the same arithmetic as locally.

    Where there are too many cells, and for statements that look at rows as such, the whole statement runs on Spark, in
    its dialect. Statements over small tables of our own (a domain, an answer) never leave this process.
    """

    def __init__(self, session: Any, data: Sequence[Path], *, most_cells: int = MOST_CELLS) -> None:
        self._lock = Lock()  # a connection serves one thread, and small tables of two questions have the same names
        self._session, self._most = session, most_cells
        self._view = f"sfumato_{secrets.token_hex(8)}"
        self._con = connect()
        self._con.execute("SET enable_external_access=false")
        self._con.execute("SET lock_configuration=true")
        self._cells: dict[tuple[str, ...], pa.Table | None] = {}
        with plainly("the rows cannot be read", lambda _: ReleaseError("the rows cannot be read by Spark")):
            frame = session.read.parquet(*addresses(data))
            frame.createOrReplaceTempView(self._view)
            self.columns = tuple(frame.columns)

    def source(self) -> tuple[str, str | None]:
        """The distinct cells of the columns that a question will name."""
        return "cells", WEIGHT

    def arrow_types(self, types: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
        with self._lock:
            return arrow_types(self._con, types)

    def run(
        self, statement: exp.Query, *, text: str | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        with self._lock:
            found = self._run(statement, text, tables or {})
        if unreadable_dates(found):
            raise QueryError("the question leads to a date outside the years 1 to 9999", sql=text)
        return found

    def _run(self, statement: exp.Query, text: str | None, tables: Mapping[str, pa.Table]) -> pa.Table:
        named = {table.name for table in statement.find_all(exp.Table)}
        if "release" in named:
            return self._on_spark(statement, text)
        if "cells" not in named:
            return self._here(statement, text, tables)
        cells = self._counted(tuple(c for c in columns_of(statement) if c != WEIGHT))
        if cells is None:
            return self._on_spark(over_rows(statement, "cells", WEIGHT), text)
        return self._here(statement, text, {**tables, "cells": cells})

    def count(self, columns: Sequence[str]) -> pa.Table:
        return self.run(counted(columns, table="release"))

    def _counted(self, columns: tuple[str, ...]) -> pa.Table | None:
        """Rows of the distinct cells over some columns; None where there are too many of them."""
        if columns not in self._cells:
            statement = counted(columns, table="release").limit(self._most + 1)
            table = self._on_spark(statement, None).rename_columns([*columns, WEIGHT])
            self._cells[columns] = None if table.num_rows > self._most else table
        return self._cells[columns]

    def _on_spark(self, statement: exp.Query, text: str | None) -> pa.Table:
        def asked(said: str) -> SfumatoError:
            kind = _KIND.search(said)
            return QueryError(f"Spark cannot evaluate this question ({kind[1] if kind else 'failed'})", sql=text)

        with plainly("Spark failed on this question", asked):
            found = self._session.sql(spark_text(statement, {"release": self._view})).toArrow()
        return _plain(found).combine_chunks()

    def _here(self, statement: exp.Query, text: str | None, tables: Mapping[str, pa.Table]) -> pa.Table:
        import duckdb

        for name, table in tables.items():
            self._con.register(name, table)
        try:
            return self._con.sql(statement.sql(dialect="duckdb")).to_arrow_table().combine_chunks()
        except duckdb.Error as error:
            reason = str(error).split("\n")[0].split(": ", 1)[-1]
            raise QueryError(f"DuckDB cannot evaluate this question: {reason}", sql=text) from None
        finally:
            for name in tables:
                self._con.unregister(name)


def _plain(table: pa.Table) -> pa.Table:
    """Times of day zones as DuckDB gives them: Spark says the session's zone."""
    fields = [
        pa.field(f.name, pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(f.type) and f.type.tz else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


def spark_text(statement: exp.Query, tables: Mapping[str, str]) -> str:
    """The statement for Spark; `tables` are the names that its tables have there."""

    def change(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table) and node.name in tables:
            # with an alias: Spark may take a WHERE after a bare name for one, and the parentheses for its columns
            return exp.table_(tables[node.name], alias=node.alias or node.name)
        if isinstance(node, exp.DataType) and node.this in {exp.DataType.Type.INT128, exp.DataType.Type.UINT128}:
            return exp.DataType.build("DECIMAL(38, 0)")
        if isinstance(node, exp.PercentileCont) and node.expression:  # quantile_cont(column, share)
            return exp.Anonymous(this="percentile", expressions=[node.this, node.expression])
        if isinstance(node, exp.PercentileDisc) and node.expression:
            order = exp.Order(expressions=[exp.Ordered(this=node.this)])
            return exp.WithinGroup(
                this=exp.Anonymous(this="percentile_disc", expressions=[node.expression]), expression=order
            )
        return node

    return statement.copy().transform(change).sql(dialect="spark")
