"""The local engine: DuckDB reads, counts and sorts, pyarrow carries batches; both spill to disk."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ...errors import DataError, ReleaseError, SfumatoError
from ...model.coarsening import in_order
from ...model.types import TEXT, ColumnType, type_named
from ..batches import BATCH_CELLS, check_sound, exactly, rows_at_once, write_parquet
from ..contract import Keys, Progress, Transform
from ..files import PrivateCopy
from ..profiling import CountedTable
from ..source import MEMORY, Source
from .columns import recoded, typed
from .connection import VECTOR, Session, SourceView, engine_error, quoted
from .reader import DuckDBReader
from .sources import view_of

BATCH_ROWS = 131_072


@dataclass(kw_only=True)
class LocalEngine:
    """One machine, no server. `memory` bounds what DuckDB holds before it spills to a temporary folder."""

    memory: str = MEMORY
    threads: int = os.cpu_count() or 1
    batch_rows: int = BATCH_ROWS
    name = "local"

    def open(self, source: Any) -> LocalTable:
        if isinstance(source, LocalTable):
            return source
        given = source if isinstance(source, Source) else Source(source)
        view = view_of(given, self)
        if given.types:
            view = typed(view, given.types)
        if given.recode:
            view = recoded(view, in_order(given.recode))
        return LocalTable(self, view)

    def read(self, data: Sequence[Path]) -> DuckDBReader:
        return DuckDBReader(data, memory=self.memory)


KEY, PLACE = "__order__", "__place__"
_CAST = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)", "UUID": "VARCHAR", "JSON": "VARCHAR"}


class LocalTable(CountedTable):
    """A source opened by the local engine."""

    def __init__(self, engine: LocalEngine, view: SourceView) -> None:
        self._engine, self._view = engine, view
        self.notes, self.labels, self.recoded = view.notes, view.labels, view.recoded
        self._bins = {}
        self._copy: PrivateCopy | None = None  # a file of rows that goes with the table
        with Session.open(self._engine, self._view) as session:
            rows = session.con.view("source")
            kinds = zip(rows.columns, rows.types, strict=True)
            self.columns = {name: _released_type(name, str(kind)) for name, kind in kinds}
            sample = session.query(f"SELECT {self._select(list(self.columns))} FROM source LIMIT 0")
        self._arrow = {field.name: field.type for field in sample.schema}

    def _tables(self, statements: Sequence[str]) -> list[pa.Table]:
        with Session.open(self._engine, self._view) as session:
            return [check_sound(session.query(statement), texts=not self._view.utf8) for statement in statements]

    def _cell(self, name: str) -> str:
        """SQL of a cell in the type that is published."""
        return f"CAST({super()._cell(name)} AS {self.columns[name]})"

    def write(
        self,
        columns: Sequence[str],
        transform: Transform,
        schema: pa.Schema,
        keys: Keys,
        path: Path,
        progress: Progress,
    ) -> int:
        """Batches through the transform, sorted by our keys in memory or by DuckDB's external sort, out as Parquet."""
        failure: list[SfumatoError] = []
        done = 0

        def transformed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            """Values with a dictionary as codes, and the rows' keys as last column."""
            nonlocal done
            try:
                for number, batch in enumerate(batches):
                    out = transform.apply(number, batch)
                    columns = [c.indices if pa.types.is_dictionary(c.type) else c for c in out.columns]
                    order = pa.array(keys(number, out.num_rows))
                    done += out.num_rows
                    progress(done)
                    yield pa.RecordBatch.from_arrays([*columns, order], names=[*out.schema.names, KEY])
            except SfumatoError as error:  # DuckDB would turn it into its own
                failure.append(error)
                raise

        held = transform.bytes_held
        with Session.open(self._engine, self._view) as reading, Session.open(self._engine, taken=held) as sorting:
            try:
                rows = transformed(self._batches(reading, columns))
                write_parquet(path, schema, sorted_rows(sorting.con, schema, rows), transform.dictionaries)
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise (failure[0] if failure else engine_error(error)) from None
        return done

    def _batches(self, session: Session, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in the source's order, in batches of one size: equal input, equal batches."""
        sql = f"SELECT {self._select(list(columns))} FROM source"
        size = rows_at_once(self._engine.batch_rows, len(columns), BATCH_CELLS)
        batches = exactly(session.batches(sql), size)
        return (check_sound(batch, texts=not self._view.utf8) for batch in batches)

    def keeping(self, column: str, most: int, columns: Sequence[str], keys: Keys) -> LocalTable:
        """Keys are random and drawn for each row alone, so every `most` rows of a person are equally likely. The rows
        that stay are copied, in their order, to a file that goes with the table."""
        result, private = copy.copy(self), PrivateCopy()
        result.columns = {name: self.columns[name] for name in columns}
        result._arrow = {name: self._arrow[name] for name in columns}
        result._bins, result._copy = {}, private
        names = list(dict.fromkeys((column, *columns)))
        cells = [(f"c{j}", self._arrow[name]) for j, name in enumerate(names)]
        schema = pa.schema([*cells, (KEY, pa.uint64()), (PLACE, pa.int64())])

        def keyed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = 0
            for number, batch in enumerate(batches):
                own = [keys(number, batch.num_rows), np.arange(rows, rows + batch.num_rows)]
                yield pa.RecordBatch.from_arrays([*batch.columns, *map(pa.array, own)], schema=schema)
                rows += batch.num_rows

        shown = ", ".join(f"c{names.index(name)} AS {quoted(name)}" for name in columns)
        rank = f"row_number() OVER (PARTITION BY c0 ORDER BY {KEY}, {PLACE})"
        with Session.open(self._engine, self._view) as reading, Session.open(self._engine) as choosing:
            given = pa.RecordBatchReader.from_batches(schema, keyed(self._batches(reading, names)))
            choosing.con.register("keyed", given)
            stay = choosing.batches(f"SELECT {shown} FROM keyed QUALIFY {rank} <= {int(most)} ORDER BY {PLACE}")
            path = private.rows(pa.schema(result._arrow), stay)
        result._view = SourceView(bind=lambda con: con.read_parquet(str(path)), utf8=True)
        return result


def sorted_rows(
    con: duckdb.DuckDBPyConnection, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows in the order of their keys, which are the last column, without them; `schema` is that of published rows."""
    kinds = [f.type.index_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    names = [f"c{j}" for j in range(len(schema))]  # others may be names that differ in case only
    travelling = pa.schema([*zip(names, kinds, strict=True), (KEY, pa.uint64())])
    given = (pa.RecordBatch.from_arrays(batch.columns, schema=travelling) for batch in batches)
    con.register("released", pa.RecordBatchReader.from_batches(travelling, given))
    for batch in con.sql(f"SELECT {', '.join(names)} FROM released ORDER BY {KEY}").to_arrow_reader(VECTOR):
        yield batch.rename_columns(schema.names)


def _released_type(name: str, kind: str) -> ColumnType:
    """Type of the column as published; ENUM becomes text: its order may be that of first appearance."""
    try:
        return TEXT if kind.startswith("ENUM") else type_named(_CAST.get(kind, kind))
    except ReleaseError:
        shown = kind.split("(", maxsplit=1)[0]
        raise DataError(
            f'column "{name}" has type {shown}; drop it or turn it into plain values', column=name
        ) from None
