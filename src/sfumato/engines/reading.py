"""DuckDB on a release: the reader's side of the local engine. It sees published files only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from ..errors import QueryError, ReleaseError
from ..model.public import Codes, Domain, Integers, Scalar
from .codes import Coder
from .database import connect
from .sources import quoted

CELLS_AFTER = 2  # questions asked of an open release before its distinct cells are counted once and kept
KEPT = 256  # evaluations of expressions on a domain
CELLS_SHARE = 0.5  # ... if they are at most this share of the rows


class ReleaseReader:
    """Runs SQL over data.parquet, confined to that one file."""

    def __init__(self, data: Path, rows: int) -> None:
        self._rows, self._asked, self._cells = rows, 0, False
        self._evaluated: dict[tuple[tuple[str, ...], tuple[str, ...]], pa.Table] = {}
        self._con = connect()
        path = str(data.resolve()).replace("'", "''")
        self._con.execute(f"SET allowed_paths=['{path}']")
        self._con.execute("SET enable_external_access=false")
        self._con.execute("SET lock_configuration=true")
        try:
            self._con.execute(f"CREATE VIEW release AS SELECT * FROM read_parquet('{path}')")
            self.types = {name: str(kind) for name, kind, *_ in self._con.execute("DESCRIBE release").fetchall()}
        except duckdb.Error:
            raise ReleaseError("data.parquet cannot be read; the release is damaged") from None

    def source(self) -> tuple[str, str | None]:
        """(table, weight column) to ask: the rows, or their distinct cells once a few questions have been asked."""
        self._asked += 1
        if self._asked == CELLS_AFTER and not self._cells:
            self.collapse()
        return ("cells", '"__n__"') if self._cells else ("release", None)

    def collapse(self) -> bool:
        """Count the distinct cells once, where that pays; later questions run over them."""
        if not self._cells and self._rows > 10_000:
            names = ", ".join(quoted(name) for name in self.types)
            distinct = self._con.execute(f"SELECT approx_count_distinct(hash({names})) FROM release").fetchall()[0][0]
            if distinct <= CELLS_SHARE * self._rows:
                self._con.execute(f"CREATE TABLE cells AS SELECT {names}, count(*) AS __n__ FROM release GROUP BY ALL")
                self._cells = True
        return self._cells

    def arrow_types(self, names: tuple[str, ...], types: Mapping[str, str]) -> dict[str, pa.DataType]:
        """Arrow's types of columns of these DuckDB types."""
        selected = ", ".join(f"CAST(NULL AS {types[name]})" for name in names)
        schema = self.query(f"SELECT {selected} LIMIT 0").schema
        return {name: schema.field(j).type for j, name in enumerate(names)}

    def rows(self) -> int:
        """How many rows data.parquet holds."""
        return int(self.query("SELECT count(*) AS n FROM release")["n"][0].as_py())

    def query(self, sql: str, *, text: str | None = None) -> pa.Table:
        """The result as Arrow; an error of types or arithmetic becomes a QueryError about `text`."""
        try:
            return self._con.sql(sql).to_arrow_table().combine_chunks()
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

    def on_domain(self, domain: Domain, types: Mapping[str, str], expressions: list[str], *, text: str) -> pa.Table:
        """SQL expressions evaluated on every value of a domain, in domain order; recent ones are kept."""
        key = (domain.columns, tuple(expressions))
        if key not in self._evaluated:
            if len(self._evaluated) >= KEPT:
                self._evaluated.pop(next(iter(self._evaluated)))
            self._evaluated[key] = self._on_domain(domain, types, expressions, text=text)
        return self._evaluated[key]

    def _on_domain(self, domain: Domain, types: Mapping[str, str], expressions: list[str], *, text: str) -> pa.Table:
        columns = {"__code__": pa.array(np.arange(len(domain)))}
        for j, name in enumerate(domain.columns):
            columns[name] = pa.array([_text(v[j]) for v in domain.values], type=pa.string())
        self._con.register("__domain__", pa.table(columns))
        casts = ", ".join(f"CAST({quoted(n)} AS {types[n]}) AS {quoted(n)}" for n in domain.columns)
        selected = ", ".join(f"{sql} AS e{i}" for i, sql in enumerate(expressions))
        sql = f"SELECT {selected} FROM (SELECT __code__, {casts} FROM __domain__) ORDER BY __code__"
        try:
            return self.query(sql, text=text)
        finally:
            self._con.unregister("__domain__")

    def refine(
        self,
        answer: pa.Table,
        *,
        having: str | None,
        order: str | None,
        limit: int | None,
        offset: int | None,
        text: str,
    ) -> pa.Table:
        """HAVING, ORDER BY and LIMIT applied to the answer's own columns."""
        self._con.register("__answer__", answer)
        sql = "SELECT * FROM __answer__" + (f" WHERE {having}" if having else "")
        sql += f" ORDER BY {order}" if order else ""
        sql += f" LIMIT {limit}" if limit is not None else ""
        sql += f" OFFSET {offset}" if offset is not None else ""
        try:
            return self.query(sql, text=text)
        finally:
            self._con.unregister("__answer__")

    def distinct(self, column: str) -> list[Scalar]:
        """Published values of a text column, for spelling suggestions."""
        table = self.query(
            f"SELECT DISTINCT {quoted(column)} AS v FROM {'cells' if self._cells else 'release'} LIMIT 10000"
        )
        return list(table["v"].to_pylist())

    def totals(self, coders: list[Coder], part: str | None) -> tuple[Integers, Codes, Integers]:
        """(part, codes, count) of the whole release over some units."""
        names = [name for coder in coders for name in coder.domain.columns]
        columns = [quoted(name) for name in names] + ([quoted(part)] if part else [])
        table, weight = ("cells", "SUM(__n__)") if self._cells else ("release", "COUNT(*)")
        found = self.query(
            f"SELECT {', '.join(columns)}, CAST({weight} AS BIGINT) AS __count__ FROM {table} GROUP BY ALL"
        )
        codes = [coder.encode([found[n] for n in coder.domain.columns]) for coder in coders]
        parts = found[part].to_numpy() if part else np.zeros(found.num_rows, dtype=np.int64)
        return parts.astype(np.int64), np.stack(codes, axis=1), found["__count__"].to_numpy()


def _text(value: Scalar) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
