"""The local engine: DuckDB reads, counts and sorts, pyarrow carries batches; both spill to disk."""

from __future__ import annotations

import copy
import os
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataError, EngineError, ReleaseError, SfumatoError, SpecError
from ...model.private import Described, Filled, JointCells, Needs, PeopleCount, Profile
from ...model.public import Domain, Scalar
from ...model.types import TEXT, ColumnType, Kind, type_named
from ...stats.allocation import changed_between_passes
from .. import scratch
from ..contract import Keys, Progress, Transform, bin_labels
from ..profiling import CELL, ROWS, joint_cells, profile_of
from .connection import connect, quoted
from .people_rows import count_people, rows_that_stay
from .reader import DuckDBReader
from .sources import Bind, binder, csv_error

BATCH_ROWS = 131_072
KEY = "__order__"
LEAST_MEMORY = 60e6  # below this DuckDB fails on any table
NEAR = 0.5  # distinct over rows, by a sketch, from which values are counted exactly
BELOW = "below the first bin"
_CAST = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)", "UUID": "VARCHAR", "JSON": "VARCHAR"}


class LocalEngine:
    """One machine, no server. `memory` bounds what DuckDB holds before it spills to a temporary folder."""

    name = "local"

    def __init__(
        self,
        *,
        memory: str = "1500MB",
        threads: int | None = None,
        batch_rows: int = BATCH_ROWS,
        encrypted_spill: bool = True,
    ) -> None:
        self.memory, self.threads, self.batch_rows = memory, threads or os.cpu_count() or 1, batch_rows
        self.encrypted_spill = encrypted_spill  # costs a sort that spills about as much time again

    def connect(self, spill: str) -> duckdb.DuckDBPyConnection:
        """A private in-memory database with our limits and no access to the network or extensions."""
        con = connect()
        con.execute(f"SET threads={int(self.threads)}")
        try:
            if str(self.memory).strip().startswith("-"):  # DuckDB takes it for "no limit"
                raise duckdb.ParserException
            con.execute("SET memory_limit=?", [self.memory])
        except duckdb.Error:
            raise SpecError(f'memory must be a size such as 2GB, got "{self.memory}"', field="memory") from None
        # What spills is encrypted under a key that dies with the process. DuckDB brings no generator of its own that it
        # would call secure for this, hence the name of the switch; docs/limitations.md says so.
        if self.encrypted_spill:
            con.execute("SET force_mbedtls_unsafe=true")
            con.execute("SET temp_file_encryption=true")
        try:
            enough = _bytes(con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]) >= LEAST_MEMORY
        except duckdb.Error:  # too little even to say how little
            enough = False
        if not enough:
            raise SpecError(f'memory "{self.memory}" is too small; give at least 64MB', field="memory")
        con.execute("SET temp_directory=?", [spill])
        return con

    def open(self, source: Any, *, delimiter: str | None = None) -> LocalTable:
        return source if isinstance(source, LocalTable) else LocalTable(self, binder(source, delimiter))

    def read(self, data: Sequence[Path], rows: int) -> DuckDBReader:
        return DuckDBReader(data, rows)


class LocalTable:
    """A source opened by the local engine; `repr` shows nothing of it."""

    def __init__(self, engine: LocalEngine, bind: Bind) -> None:
        self._engine, self._bind = engine, bind
        self._bins: dict[str, str] = {}  # column -> SQL of its bin's label
        self._copy: _Copy | None = None  # a file of rows that goes with the table
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
        return profile_of(tables, needs, declared, self.columns, self._arrow, null_as_value=null_as_value)

    def _joint_counts(self, columns: list[str]) -> pa.Table:
        with self._session() as session:
            return (
                session.query(f"SELECT {self._select(columns)}, count(*) AS {ROWS} FROM source GROUP BY ALL")
                .to_arrow_table()
                .combine_chunks()
            )

    def cells(
        self, quasi: Sequence[str], sensitive: Sequence[Domain], looked_at: Mapping[int, Domain], *, limit: int
    ) -> JointCells | None:
        """One GROUP BY; cells are numbered by DuckDB, so that only the sensitive columns come back."""
        shown = list(dict.fromkeys(name for d in (*sensitive, *looked_at.values()) for name in d.columns))
        columns = list(dict.fromkeys((*quasi, *shown)))
        order = ", ".join(quoted(c) for c in quasi)
        number = f"dense_rank() OVER (ORDER BY {order}) - 1" if quasi else "0"
        names = ", ".join(quoted(c) for c in shown)
        with self._session() as session:
            counted = f"SELECT {self._select(columns)}, count(*) AS {ROWS} FROM source GROUP BY ALL"
            session.run(f"CREATE TEMP TABLE joint AS {counted}")
            if session.query("SELECT count(*) AS n FROM joint").to_arrow_table()["n"][0].as_py() > limit:
                return None
            found = session.query(f"SELECT {names}, CAST({number} AS BIGINT) AS {CELL}, {ROWS} FROM joint")
            table = found.to_arrow_table().combine_chunks()
        return joint_cells(table, sensitive, looked_at, self._arrow)

    def write(
        self,
        columns: Sequence[str],
        transform: Transform,
        schema: pa.Schema,
        keys: Keys,
        path: Path,
        progress: Progress,
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
                target = str(path).replace("'", "''")
                sorting.con.execute(
                    f"COPY (SELECT {names} FROM released ORDER BY {KEY}) TO '{target}' (FORMAT parquet)"
                )
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
        return ", ".join(f"{self._cast(c)} AS {quoted(c)}" for c in columns)

    def _cast(self, name: str) -> str:
        """SQL of a cell in the column's type."""
        return f"CAST({self._cell(name)} AS {self.columns[name]})"

    def _cell(self, name: str) -> str:
        """SQL of a cell: its bin's label, or itself; -0.0 is 0.0, as equal numbers must be equal values."""
        cell = quoted(name)
        if name in self._bins:
            return self._bins[name]
        return f"CASE WHEN {cell} = 0 THEN 0 ELSE {cell} END" if self.columns[name].kind is Kind.REAL else cell

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

    def people(self, column: str) -> PeopleCount:
        with self._session() as session:
            try:
                return count_people(session.con, self._cast(column))
            except duckdb.Error as error:
                raise _reading_error(error) from None

    def keeping(self, column: str, most: int, columns: Sequence[str], keys: Keys) -> LocalTable:
        """Chosen in one pass over the column, copied in a second one to a file that goes with the table."""
        with self._session() as reading, self._session(bind=False) as choosing:
            try:
                stay = rows_that_stay(choosing.con, self._batches(reading, [column]), most, keys)
            except (duckdb.Error, pa.ArrowException) as error:
                raise _engine_error(error) from None
        result = copy.copy(self)
        result.columns = {name: self.columns[name] for name in columns}
        result._arrow = {name: self._arrow[name] for name in columns}
        result._bins, result._copy = {}, _Copy()
        path = result._copy.folder / "rows.parquet"
        result._bind = lambda con: con.read_parquet(str(path))
        done = 0
        with self._session() as reading, pq.ParquetWriter(path, pa.schema(result._arrow)) as writer:
            for batch in self._batches(reading, columns):
                writer.write_batch(batch.filter(pa.array(stay[done : done + batch.num_rows])))
                done += batch.num_rows
        if done != stay.size or result.people(column).most > most:
            raise changed_between_passes()
        return result

    def filled(self, columns: Sequence[str]) -> dict[str, Filled]:
        """Sketches first; only columns that may be nearly unique are counted exactly, which needs room."""
        names = list(columns)
        if not names:
            return {}
        with self._session() as session:
            rough = self._counts(session, names, "approx_count_distinct({})")
            near = [n for n in names if rough[n].distinct > NEAR * rough[n].rows]
            return rough | (self._counts(session, near, "count(DISTINCT {})") if near else {})

    def describe(self, columns: Sequence[str], *, examples: int = 0) -> dict[str, Described]:
        with self._session() as session:
            return {name: self._described(session, name, examples) for name in columns}

    def _described(self, session: _Session, name: str, examples: int) -> Described:
        """Column by column: exact numbers of different values need room."""
        cell = self._cast(name)
        words = "regexp_matches(CAST(v AS VARCHAR), '\\S\\s+\\S+\\s+\\S+\\s+\\S')"
        counted = f"SELECT {cell} AS v, count(*) AS n FROM source GROUP BY 1"
        found = session.query(
            "SELECT sum(n), coalesce(sum(n) FILTER (v IS NOT NULL), 0), count(v), "
            "coalesce(sum(n * length(CAST(v AS VARCHAR))) / sum(n) FILTER (v IS NOT NULL), 0), "
            f"coalesce(sum(n) FILTER ({words}) / sum(n) FILTER (v IS NOT NULL), 0) FROM ({counted})"
        ).to_arrow_table()
        rows, filled, distinct, length, sentences = (column[0].as_py() for column in found.columns)
        shown: tuple[str, ...] = ()
        if examples:
            some = f"SELECT CAST(v AS VARCHAR) AS v FROM ({counted}) WHERE v IS NOT NULL ORDER BY n DESC, v"
            shown = tuple(session.query(f"{some} LIMIT {int(examples)}").to_arrow_table()["v"].to_pylist())
        return Described(
            rows=int(rows or 0),
            filled=Filled(rows=int(filled), distinct=int(distinct)),
            length=float(length),
            sentences=float(sentences),
            examples=shown,
        )

    def _counts(self, session: _Session, columns: list[str], distinct: str) -> dict[str, Filled]:
        cells = [self._cast(name) for name in columns]
        found = session.query(
            f"SELECT {', '.join(f'count({c}), ' + distinct.format(c) for c in cells)} FROM source"
        ).to_arrow_table()
        numbers = [column[0].as_py() for column in found.columns]
        return {
            name: Filled(rows=numbers[2 * i], distinct=min(numbers[2 * i], numbers[2 * i + 1]))
            for i, name in enumerate(columns)
        }

    def _session(self, *, bind: bool = True) -> _Session:
        return _Session(self._engine, self._bind if bind else None)


class _Copy:
    """A private folder that goes when nobody holds it any more."""

    def __init__(self) -> None:
        self.folder = scratch.new_folder("rows")
        weakref.finalize(self, scratch.remove, self.folder)


class _Session:
    """A connection with the source bound as `source`, and a spill folder that goes with it."""

    def __init__(self, engine: LocalEngine, bind: Bind | None) -> None:
        self._engine, self._bind = engine, bind

    def __enter__(self) -> _Session:
        with ExitStack() as stack:  # undone here when binding fails, kept for __exit__ when it does not
            spill = stack.enter_context(scratch.folder("spill"))
            self.con = stack.enter_context(self._engine.connect(str(spill)))
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

    def run(self, sql: str) -> None:
        try:
            self.con.execute(sql)
        except duckdb.Error as error:
            raise _reading_error(error) from None


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


def _bytes(shown: str) -> float:
    """What DuckDB shows as "1.3 GiB"."""
    number, unit = re.fullmatch(r"([0-9.]+) ?(bytes?|KiB|MiB|GiB|TiB|PiB)", shown.strip()).groups()  # type: ignore[union-attr]
    return float(number) * 1024.0 ** ["b", "K", "M", "G", "T", "P"].index(unit[0])


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
