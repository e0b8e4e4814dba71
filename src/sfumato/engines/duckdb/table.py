"""The local engine: DuckDB reads, counts and sorts, pyarrow carries batches; both spill to disk."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, EngineError, ReleaseError, SfumatoError, SpecError
from ...model.private import Histogram, Needs, Profile
from ...model.public import Domain, Scalar
from ...model.types import TEXT, ColumnType, Kind, type_named
from ..codes import Coder
from ..contract import Keys, ListColumn, Progress, Transform, bin_labels
from ..list_columns import ROW_GROUP, write_with_lists
from .connection import connect, quoted
from .reader import DuckDBReader
from .sources import Bind, binder, csv_error

BATCH_ROWS = 131_072
KEY = "__order__"
BELOW = "below the first bin"
_CAST = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)", "UUID": "VARCHAR", "JSON": "VARCHAR"}


class LocalEngine:
    """One machine, no server. `memory` bounds what DuckDB holds before it spills to a temporary folder."""

    name = "local"

    def __init__(self, *, memory: str = "1500MB", threads: int | None = None, batch_rows: int = BATCH_ROWS) -> None:
        self.memory, self.threads, self.batch_rows = memory, threads or os.cpu_count() or 1, batch_rows

    def connect(self, spill: str) -> duckdb.DuckDBPyConnection:
        """A private in-memory database with our limits and no access to the network or extensions."""
        con = connect()
        con.execute(f"SET threads={int(self.threads)}")
        try:
            con.execute("SET memory_limit=?", [self.memory])
        except duckdb.Error:
            raise SpecError(f'memory must be a size such as 2GB, got "{self.memory}"', field="memory") from None
        con.execute("SET temp_directory=?", [spill])
        return con

    def open(self, source: Any, *, delimiter: str | None = None) -> LocalTable:
        return LocalTable(self, binder(source, delimiter))

    def read(self, data: Path, rows: int) -> DuckDBReader:
        return DuckDBReader(data, rows)


class LocalTable:
    """A source opened by the local engine; `repr` shows nothing of it."""

    def __init__(self, engine: LocalEngine, bind: Bind) -> None:
        self._engine, self._bind = engine, bind
        self._bins: dict[str, str] = {}  # column -> SQL of its bin's label
        with self._session() as session:
            self.columns = {
                name: _released_type(name, str(kind))
                for name, kind in zip(session.source.columns, session.source.types, strict=True)
            }
            self._arrow = dict.fromkeys(self.columns)
            sample = session.query(f"SELECT {self._select(list(self.columns))} FROM source LIMIT 0").to_arrow_table()
        self._arrow = {field.name: field.type for field in sample.schema}

    def __repr__(self) -> str:
        return f"<table with {len(self.columns)} columns>"

    def arrow_types(self) -> Mapping[str, pa.DataType]:
        return self._arrow

    def profile(self, needs: Needs, declared: Mapping[str, Sequence[Scalar]], *, null_as_value: bool) -> Profile:
        """Joint counts by one GROUP BY per joint; domains from them, or as declared."""
        tables = [self._joint_counts([c for u in joint for c in needs.units[u]]) for joint in needs.joints]
        domains: dict[int, Domain] = {}
        for joint, table in zip(needs.joints, tables, strict=True):
            for u in joint:
                if u not in domains:
                    looked_at = not needs.changed[u] and u not in needs.sensitive
                    domains[u] = self._domain(needs.units[u], table, declared, null_as_value or looked_at)
        ordered = tuple(domains[u] for u in range(len(needs.units)))
        coders = [Coder(d, self._arrow) for d in ordered]
        histograms = []
        for joint, table in zip(needs.joints, tables, strict=True):
            codes = [coders[u].encode([table[c] for c in needs.units[u]]) for u in joint]
            counts = table[KEY].to_numpy().astype(np.int64)
            histograms.append(Histogram(codes=np.stack(codes, axis=1).astype(np.int32), true_counts=counts))
        rows = int(histograms[0].true_counts.sum())
        return Profile(rows=rows, domains=ordered, histograms=tuple(histograms), sensitive=needs.sensitive)

    def _joint_counts(self, columns: list[str]) -> pa.Table:
        with self._session() as session:
            return (
                session.query(f"SELECT {self._select(columns)}, count(*) AS {KEY} FROM source GROUP BY ALL")
                .to_arrow_table()
                .combine_chunks()
            )

    def _domain(
        self, columns: tuple[str, ...], table: pa.Table, declared: Mapping[str, Sequence[Scalar]], nulls: bool
    ) -> Domain:
        for name in columns:
            column, counts, kind = table[name], table[KEY], self.columns[name]
            if kind.kind is Kind.BYTES or kind.unit == "ns":  # they have no exact form in JSON
                raise DataError(f'column "{name}" has type {kind}; turn it into text, numbers or dates', column=name)
            if pa.types.is_floating(column.type):
                odd = pc.sum(pc.filter(counts, pc.invert(pc.is_finite(column)))).as_py()
                if odd:
                    message = f'{odd} rows of "{name}" are NaN or infinite; turn them into null or into numbers'
                    raise DataError(message, column=name)
            missing = pc.sum(pc.filter(counts, pc.is_null(column))).as_py()
            if missing and not nulls:
                raise DataError(
                    f'{missing} rows have no value in "{name}"; fill them, drop them, or make missing a value of '
                    "its own with --null-as-value",
                    column=name,
                )
        said = [name for name in columns if name in declared]
        if said and len(said) < len(columns):
            raise SpecError(f'declare the domain of every sensitive column or of none; "{said[0]}" alone is declared')
        if said:
            values = [tuple(_typed(name, declared[name], self._arrow[name])) for name in columns]
            grid = np.meshgrid(*[np.arange(len(v)) for v in values], indexing="ij")
            cells = zip(*[[values[j][k] for k in g.ravel()] for j, g in enumerate(grid)], strict=True)
            return Domain(columns=columns, values=tuple(cells), declared=True)
        distinct = table.select(list(columns)).group_by(list(columns)).aggregate([])
        distinct = distinct.sort_by([(name, "ascending") for name in columns])
        return Domain(
            columns=columns, values=tuple(zip(*[distinct[name].to_pylist() for name in columns], strict=True))
        )

    def write(
        self,
        columns: Sequence[str],
        transform: Transform,
        schema: pa.Schema,
        keys: Keys,
        path: Path,
        progress: Progress,
        lists: Sequence[ListColumn] = (),
    ) -> int:
        """Batches through the transform into DuckDB's external sort by our keys, and out as Parquet."""
        failure: list[SfumatoError] = []
        done = 0

        def stream(session: _Session) -> Iterator[pa.RecordBatch]:
            nonlocal done
            try:
                for number, batch in enumerate(self._batches(session, columns)):
                    out = transform.split(number, batch)()
                    order = pa.array(keys(number, out.num_rows))
                    done += out.num_rows
                    progress(done)
                    yield pa.RecordBatch.from_arrays([*out.columns, order], schema=keyed)
            except SfumatoError as error:  # DuckDB would turn it into its own
                failure.append(error)
                raise

        keyed = schema.append(pa.field(KEY, pa.uint64()))
        with self._session() as reading, self._session(bind=False) as sorting:
            reader = pa.RecordBatchReader.from_batches(keyed, stream(reading))
            try:
                sorting.con.register("released", reader)
                names = ", ".join(quoted(name) for name in schema.names)
                ordered = f"SELECT {names} FROM released ORDER BY {KEY}"
                if lists:
                    write_with_lists(sorting.con.sql(ordered).to_arrow_reader(ROW_GROUP), path, lists)
                else:
                    target = str(path).replace("'", "''")
                    sorting.con.execute(f"COPY ({ordered}) TO '{target}' (FORMAT parquet)")
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise (failure[0] if failure else _engine_error(error)) from None
        return done

    def _batches(self, session: _Session, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in the source's order, cut into batches of exactly `batch_rows`: equal input, equal batches."""
        size = self._engine.batch_rows
        reader = session.query(f"SELECT {self._select(list(columns))} FROM source").to_arrow_reader(size)
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in reader:
            held.append(batch)
            rows += batch.num_rows
            while rows >= size:
                table = pa.Table.from_batches(held)
                yield _one(table.slice(0, size))
                held, rows = table.slice(size).to_batches(), rows - size
        if rows:
            yield _one(pa.Table.from_batches(held))

    def _select(self, columns: list[str]) -> str:
        return ", ".join(f"CAST({self._bins.get(c, quoted(c))} AS {self.columns[c]}) AS {quoted(c)}" for c in columns)

    def binned(self, edges: Mapping[str, Sequence[float]]) -> LocalTable:
        """Bins [edge, next edge), the last without upper end; a value below the first edge gets no known label."""
        result = copy.copy(self)
        result._bins, result.columns, result._arrow = dict(self._bins), dict(self.columns), dict(self._arrow)
        for binned, cuts in edges.items():
            kind = self.columns.get(binned)
            if kind is None or not kind.numeric:
                raise SpecError(f'bins are given for "{binned}", which is not a column of numbers', field="bins")
            column, labels = quoted(binned), bin_labels(cuts)
            empty = f"{column} IS NULL" + (f" OR isnan({column})" if kind.kind is Kind.REAL else "")
            names = [BELOW, *labels[:-1]]
            whens = [f"WHEN {column} < {cut!r} THEN '{name}'" for cut, name in zip(cuts, names, strict=True)]
            result._bins[binned] = f"CASE WHEN {empty} THEN NULL {' '.join(whens)} ELSE '{labels[-1]}' END"
            result.columns[binned], result._arrow[binned] = TEXT, pa.string()
        return result

    def _session(self, *, bind: bool = True) -> _Session:
        return _Session(self._engine, self._bind if bind else None)


class _Session:
    """A connection with the source bound as `source`, and a spill folder that goes with it."""

    def __init__(self, engine: LocalEngine, bind: Bind | None) -> None:
        self._engine, self._bind = engine, bind

    def __enter__(self) -> _Session:
        with ExitStack() as stack:  # undone here when binding fails, kept for __exit__ when it does not
            spill = tempfile.TemporaryDirectory(prefix="sfumato-spill-", ignore_cleanup_errors=True)
            self.con = stack.enter_context(self._engine.connect(stack.enter_context(spill)))
            if self._bind is not None:
                try:
                    self.source = self._bind(self.con)
                    self.source.create_view("source")
                except (duckdb.Error, pa.ArrowException) as error:
                    raise _reading_error(error) from None
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def query(self, sql: str) -> _Query:
        return _Query(self.con, sql)


class _Query:
    """A relation whose errors do not quote the table."""

    def __init__(self, con: duckdb.DuckDBPyConnection, sql: str) -> None:
        self._con, self._sql = con, sql

    def to_arrow_table(self) -> pa.Table:
        try:
            return self._con.sql(self._sql).to_arrow_table()
        except duckdb.Error as error:
            raise _reading_error(error) from None

    def to_arrow_reader(self, rows: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._con.sql(self._sql).to_arrow_reader(rows)
        except (duckdb.Error, pa.ArrowException) as error:
            raise _reading_error(error) from None


def _one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def _released_type(name: str, kind: str) -> ColumnType:
    """Type of the column as published; ENUM becomes text: its order may be that of first appearance."""
    try:
        return TEXT if kind.startswith("ENUM") else type_named(_CAST.get(kind, kind))
    except ReleaseError:
        shown = kind.split("(", maxsplit=1)[0]
        raise DataError(
            f'column "{name}" has type {shown}; drop it or turn it into plain values', column=name
        ) from None


def _typed(name: str, values: Sequence[Scalar], kind: pa.DataType) -> list[Scalar]:
    """Declared values in the column's own type, sorted, null last."""
    try:
        array = pc.unique(pc.cast(pa.array(list(values)), kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise SpecError(f'the declared domain of "{name}" does not fit its type {kind}', field="domain") from None
    return array.take(pc.sort_indices(array)).to_pylist()


def _reading_error(error: Exception) -> SfumatoError:
    text = str(error)
    if "CSV" in text:
        return csv_error(error)
    if isinstance(error, duckdb.NotImplementedException):
        return DataError("a column has a type that cannot be read; turn it into plain numbers, text or dates")
    damaged = ("could not", "not a valid", "magic bytes", "parquet", "thrift", "protocol")
    if isinstance(error, duckdb.InvalidInputException) or any(sign in text.lower() for sign in damaged):
        return DataError("the file is damaged or not of the kind its name says")
    return _engine_error(error)


def _engine_error(error: Exception) -> SfumatoError:
    """One line, without the engine's own text: it may quote cells."""
    text = str(error)
    if "No space left" in text or getattr(error, "errno", None) == 28:
        return ReleaseError("the disk is full: no space left on device; nothing was published")
    if isinstance(error, duckdb.OutOfMemoryException) or "memory" in text.lower():
        return EngineError("the engine ran out of memory; give it more with --memory, or free disk space for spilling")
    if isinstance(error, OSError | duckdb.IOException):
        return ReleaseError("reading or writing failed in the operating system; nothing was published")
    return EngineError(f"the engine failed ({type(error).__name__}); run with --debug for the details")
