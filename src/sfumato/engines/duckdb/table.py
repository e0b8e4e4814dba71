"""The local engine: DuckDB reads, counts and sorts, pyarrow carries batches; both spill to disk."""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...errors import DataError, ReleaseError, SfumatoError, SpecError
from ...model.bin_labels import bin_labels
from ...model.coarsening import Recoding
from ...model.private import Described, Filled, JointCells, Needs, PeopleCount, Profile
from ...model.public import Domain, Scalar
from ...model.types import TEXT, ColumnType, Kind, type_named
from ...stats.shuffling import changed_between_passes
from ..batches import BATCH_CELLS, OFFSETS, TEXT_BYTES, check_sound, exactly, rows_at_once, rows_in, write_parquet
from ..contract import Keys, Progress, Transform
from ..files import PrivateCopy
from ..profiling import CELL, ROWS, joint_cells, profile_of
from ..source import MEMORY, source_of
from .connection import Session, SourceView, engine_error, quoted
from .reader import DuckDBReader
from .sources import view_of

BATCH_ROWS = 131_072


class LocalEngine:
    """One machine, no server. `memory` bounds what DuckDB holds before it spills to a temporary folder."""

    name = "local"

    def __init__(
        self,
        *,
        memory: str = MEMORY,
        threads: int | None = None,
        batch_rows: int = BATCH_ROWS,
        encrypted_spill: bool = True,
    ) -> None:
        self.memory, self.threads, self.batch_rows = memory, threads or os.cpu_count() or 1, batch_rows
        self.encrypted_spill = encrypted_spill  # costs a sort that spills about as much time again

    def open(self, source: Any, *, delimiter: str | None = None) -> LocalTable:
        return (
            source if isinstance(source, LocalTable) else LocalTable(self, view_of(source_of(source, delimiter), self))
        )

    def read(self, data: Sequence[Path]) -> DuckDBReader:
        return DuckDBReader(data, memory=self.memory)


NEAR = 0.5  # distinct over rows, by a sketch, from which values are counted exactly
AT_ONCE = 64  # columns that one statement counts: its room grows with them, and 400 of two rows took all there is
FIRST = 1 << 10  # rows that tell how large others are
KEY = "__order__"
SORTED = 1 << 14  # rows that come out of the sort together
FETCHED = 1_000_000  # row numbers at a time
BELOW = "below the first bin"
_CAST = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)", "UUID": "VARCHAR", "JSON": "VARCHAR"}


class LocalTable:
    """A source opened by the local engine; `repr` shows nothing of it."""

    def __init__(self, engine: LocalEngine, view: SourceView) -> None:
        self._engine, self._view = engine, view
        self.notes, self.labels, self.recoded = view.notes, view.labels, view.recoded
        self._bins: dict[str, str] = {}  # column -> SQL of its bin's label
        self._copy: PrivateCopy | None = None  # a file of rows that goes with the table
        with self._session() as session:
            self.columns = {
                name: _released_type(name, str(kind))
                for name, kind in zip(session.source.columns, session.source.types, strict=True)
            }
            sample = session.query(f"SELECT {self._select(list(self.columns))} FROM source LIMIT 0")
        self._arrow = {field.name: field.type for field in sample.schema}

    def __repr__(self) -> str:
        return f"<table with {len(self.columns)} columns>"

    def arrow_types(self) -> Mapping[str, pa.DataType]:
        return self._arrow

    def profile(self, needs: Needs, declared: Mapping[str, Sequence[Scalar]], *, null_as_value: bool) -> Profile:
        """Joint counts by one GROUP BY per joint; domains from them, or as declared."""
        with self._session() as session:
            tables = [self._joint_counts(session, [c for u in joint for c in needs.units[u]]) for joint in needs.joints]
        return profile_of(tables, needs, declared, self.columns, self._arrow, null_as_value=null_as_value)

    def _joint_counts(self, session: Session, columns: list[str]) -> pa.Table:
        counted = session.query(f"SELECT {self._select(columns)}, count(*) AS {ROWS} FROM source GROUP BY ALL")
        return check_sound(counted, texts=not self._view.utf8)

    def cells(
        self, quasi: Sequence[str], sensitive: Sequence[Domain], looked_at: Mapping[int, Domain], *, limit: int
    ) -> JointCells | None:
        """One GROUP BY; cells are numbered by DuckDB, so that only the sensitive columns come back."""
        shown = list(dict.fromkeys(name for d in (*sensitive, *looked_at.values()) for name in d.columns))
        columns = list(dict.fromkeys((*quasi, *shown)))
        order = ", ".join(quoted(c) for c in quasi)
        number = f"dense_rank() OVER (ORDER BY {order}) - 1" if quasi else "0"
        names = "".join(f"{quoted(c)}, " for c in shown)  # none where nobody named a sensitive column
        with self._session() as session:
            counted = f"SELECT {self._select(columns)}, count(*) AS {ROWS} FROM source GROUP BY ALL"
            session.run(f"CREATE TEMP TABLE joint AS {counted}")
            if session.query("SELECT count(*) AS n FROM joint")["n"][0].as_py() > limit:
                return None
            found = session.query(f"SELECT {names}CAST({number} AS BIGINT) AS {CELL}, {ROWS} FROM joint")
        return joint_cells(found, sensitive, looked_at, self._arrow)

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

        def stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            nonlocal done
            try:
                for batch in transformed(batches, transform, keys, self._engine.threads):
                    done += batch.num_rows
                    progress(done)
                    yield batch
            except SfumatoError as error:  # DuckDB would turn it into its own
                failure.append(error)
                raise

        with self._session() as reading, Session(self._engine) as sorting:
            sorting.leave(transform.bytes_held)
            try:
                rows = stream(self._batches(reading, columns))
                write_parquet(path, schema, sorted_rows(sorting.con, schema, rows), transform.dictionaries)
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise (failure[0] if failure else engine_error(error)) from None
        return done

    def _batches(self, session: Session, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in the source's order, in batches of one size: equal input, equal batches."""
        sql = f"SELECT {self._select(list(columns))} FROM source"
        size = at_once = rows_at_once(self._engine.batch_rows, len(columns), BATCH_CELLS)
        if any(self._arrow[name] in OFFSETS for name in columns):  # of long texts fewer come at a time
            some = session.query(f"{sql} LIMIT {FIRST}")
            at_once = rows_in(at_once, some.nbytes, some.num_rows, TEXT_BYTES)
        batches = exactly(session.batches(sql, at_once), size, TEXT_BYTES)
        return (check_sound(batch, texts=not self._view.utf8) for batch in batches)

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
        more = tuple(Recoding(column=name, edges=tuple(cuts)) for name, cuts in edges.items())
        result.recoded = (*self.recoded, *more)
        return result

    def people(self, column: str) -> PeopleCount:
        grouped = f"SELECT {self._cast(column)} AS person, count(*) AS n FROM source GROUP BY 1"
        with self._session() as session:
            found = session.query(
                "SELECT coalesce(sum(n), 0), coalesce(sum(n) FILTER (person IS NULL), 0), count(person), "
                "count(*) FILTER (person IS NOT NULL AND n > 1), coalesce(max(n) FILTER (person IS NOT NULL), 0) "
                f"FROM ({grouped})"
            )
        rows, missing, people, several, most = (int(column[0].as_py()) for column in found.columns)
        return PeopleCount(rows=rows, missing=missing, people=people, several=several, most=most)

    def keeping(self, column: str, most: int, columns: Sequence[str], keys: Keys) -> LocalTable:
        """Chosen in one pass over the column, copied in a second one to a file that goes with the table."""
        with self._session() as reading, Session(self._engine) as choosing:
            try:
                stay = _rows_that_stay(choosing.con, self._batches(reading, [column]), most, keys)
            except (duckdb.Error, pa.ArrowException) as error:
                raise engine_error(error) from None
        result, private = copy.copy(self), PrivateCopy()
        path = private.folder / "rows.parquet"
        result.columns = {name: self.columns[name] for name in columns}
        result._arrow = {name: self._arrow[name] for name in columns}
        result._bins, result._copy = {}, private
        result._view = SourceView(bind=lambda con: con.read_parquet(str(path)), utf8=True)
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

    def _described(self, session: Session, name: str, examples: int) -> Described:
        """Column by column: exact numbers of different values need room."""
        cell = self._cast(name)
        words = "regexp_matches(CAST(v AS VARCHAR), '\\S\\s+\\S+\\s+\\S+\\s+\\S')"
        counted = f"SELECT {cell} AS v, count(*) AS n FROM source GROUP BY 1"
        found = session.query(
            "SELECT sum(n), coalesce(sum(n) FILTER (v IS NOT NULL), 0), count(v), "
            "coalesce(sum(n * length(CAST(v AS VARCHAR))) / sum(n) FILTER (v IS NOT NULL), 0), "
            f"coalesce(sum(n) FILTER ({words}) / sum(n) FILTER (v IS NOT NULL), 0) FROM ({counted})"
        )
        rows, filled, distinct, length, sentences = (column[0].as_py() for column in found.columns)
        shown: tuple[str, ...] = ()
        if examples:
            some = f"SELECT CAST(v AS VARCHAR) AS v FROM ({counted}) WHERE v IS NOT NULL ORDER BY n DESC, v"
            shown = tuple(session.query(f"{some} LIMIT {int(examples)}")["v"].to_pylist())
        return Described(
            rows=int(rows or 0),
            filled=Filled(rows=int(filled), distinct=int(distinct)),
            length=float(length),
            sentences=float(sentences),
            examples=shown,
        )

    def _counts(self, session: Session, columns: list[str], distinct: str) -> dict[str, Filled]:
        numbers: list[int] = []
        for first in range(0, len(columns), AT_ONCE):
            cells = [self._cast(name) for name in columns[first : first + AT_ONCE]]
            counts = ", ".join(f"count({c}), " + distinct.format(c) for c in cells)
            found = session.query(f"SELECT {counts} FROM source")
            numbers += [column[0].as_py() for column in found.columns]
        return {
            name: Filled(rows=numbers[2 * i], distinct=min(numbers[2 * i], numbers[2 * i + 1]))
            for i, name in enumerate(columns)
        }

    def _session(self) -> Session:
        return Session(self._engine, self._view)


def transformed(
    batches: Iterable[pa.RecordBatch], transform: Transform, keys: Keys, threads: int
) -> Iterator[pa.RecordBatch]:
    """What the transform makes of the batches, values with a dictionary as codes, and the rows' keys as last column.

    Batches are split one after the other; the rest of the work on them goes on beside reading the next ones.
    """

    def finished(number: int, rest: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        out = rest()
        columns = [c.indices if pa.types.is_dictionary(c.type) else c for c in out.columns]
        order = pa.array(keys(number, out.num_rows))
        return pa.RecordBatch.from_arrays([*columns, order], names=[*out.schema.names, KEY])

    parts = (partial(finished, number, transform.split(number, batch)) for number, batch in enumerate(batches))
    yield from _prefetch(parts, threads)


def sorted_rows(
    con: duckdb.DuckDBPyConnection, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of `transformed` in the order of their keys, without them; `schema` is that of the published rows."""
    kinds = [f.type.index_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    names = [f"c{j}" for j in range(len(schema))]  # others may be names that differ in case only
    travelling = pa.schema([*zip(names, kinds, strict=True), (KEY, pa.uint64())])
    given = (pa.RecordBatch.from_arrays(batch.columns, schema=travelling) for batch in batches)
    con.register("released", pa.RecordBatchReader.from_batches(travelling, given))
    for batch in con.sql(f"SELECT {', '.join(names)} FROM released ORDER BY {KEY}").to_arrow_reader(SORTED):
        yield batch.rename_columns(schema.names)


def _prefetch(work: Iterable[Callable[[], pa.RecordBatch]], threads: int) -> Iterator[pa.RecordBatch]:
    """What the functions return, in their order; a few of them are called ahead, at the same time."""
    with ThreadPoolExecutor(max_workers=threads) as workers:
        waiting: deque[Future[pa.RecordBatch]] = deque()
        for one in work:
            waiting.append(workers.submit(one))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _released_type(name: str, kind: str) -> ColumnType:
    """Type of the column as published; ENUM becomes text: its order may be that of first appearance."""
    try:
        return TEXT if kind.startswith("ENUM") else type_named(_CAST.get(kind, kind))
    except ReleaseError:
        shown = kind.split("(", maxsplit=1)[0]
        raise DataError(
            f'column "{name}" has type {shown}; drop it or turn it into plain values', column=name
        ) from None


def _rows_that_stay(
    con: duckdb.DuckDBPyConnection, people: Iterator[pa.RecordBatch], most: int, keys: Keys
) -> NDArray[np.bool_]:
    """Which rows stay, one flag a row: of every person those with the `most` least keys.

    Keys are random and drawn for each row alone, so every `most` rows of a person are equally likely. The engine sorts
    (person, key, row number) and spills; here one byte a row is held.
    """
    rows = 0

    def keyed() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for number, batch in enumerate(people):
            key, place = keys(number, batch.num_rows), np.arange(rows, rows + batch.num_rows)
            rows += batch.num_rows
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(key), pa.array(place)], schema=schema)

    first = next(people, None)
    if first is None:
        return np.zeros(0, dtype=bool)
    schema = pa.schema(
        [pa.field("person", first.column(0).type), pa.field("key", pa.uint64()), pa.field("place", pa.int64())]
    )
    people = chain([first], people)
    con.register("keyed", pa.RecordBatchReader.from_batches(schema, keyed()))
    ranked = "SELECT place, row_number() OVER (PARTITION BY person ORDER BY key, place) AS rank FROM keyed"
    leave = con.sql(f"SELECT place FROM ({ranked}) WHERE rank > {int(most)}").to_arrow_reader(FETCHED)
    left = [batch.column(0).to_numpy() for batch in leave]
    stay = np.ones(rows, dtype=bool)
    for places in left:
        stay[places] = False
    return stay
