"""A table of the local engine: what it counts, and how its rows are streamed into a release."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataError, ReleaseError, SfumatoError, SpecError
from ...model.bin_labels import bin_labels
from ...model.coarsening import Recoding
from ...model.private import Described, Filled, JointCells, Needs, PeopleCount, Profile
from ...model.public import Domain, Scalar
from ...model.types import TEXT, ColumnType, Kind, type_named
from ...stats.allocation import changed_between_passes
from ..batch_sizes import BATCH_CELLS, OFFSETS, TEXT_BYTES, exactly, rows_at_once, rows_in
from ..cell_counts import cell_counts
from ..contract import FollowingColumn, Keys, Progress, Transform, Written
from ..private_copy import PrivateCopy
from ..profiling import CELL, ROWS, joint_cells, profile_of
from ..sound_cells import check_sound
from ..source import source_of
from .bound import Bound
from .connection import quoted
from .csv_rows import counted, plain_batches
from .engine import LocalEngine
from .held_rows import FIRST, HeldRows
from .numbered_counts import numbered_counts
from .ordered_rows import KEY, transformed, used_up, write_ordered
from .people_rows import count_people, rows_that_stay
from .session import Session, engine_error, left, reading_error
from .sources import binder

NEAR = 0.5  # distinct over rows, by a sketch, from which values are counted exactly
AT_ONCE = 64  # columns that one statement counts: its room grows with them, and 400 of two rows took all there is
KEPT_ROWS = 1_000_000  # above these a database that has counted goes, with memory that it would not give back before
BELOW = "below the first bin"
Wanted = Callable[[Sequence[str]], Sequence[str]]  # of the columns of a table those that both passes will look at
_CAST = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)", "UUID": "VARCHAR", "JSON": "VARCHAR"}


def opened(engine: LocalEngine, source: Any, delimiter: str | None) -> LocalTable:
    """The source as a table of the engine."""
    return (
        source if isinstance(source, LocalTable) else LocalTable(engine, binder(source_of(source, delimiter), engine))
    )


class LocalTable:
    """A source opened by the local engine; `repr` shows nothing of it."""

    def __init__(self, engine: LocalEngine, bound: Bound, *, hold: Wanted | None = None) -> None:
        """`hold` tells the columns whose rows are read from now on, for passes over no others to find in memory."""
        self._engine, self._bind, self._seen = engine, bound.bind, bound.seen
        self.notes, self.labels, self.recoded = bound.notes, bound.labels, bound.recoded
        self._bins: dict[str, str] = {}  # column -> SQL of its bin's label
        self._copy: PrivateCopy | None = None  # a file of rows that goes with the table
        self._held: HeldRows | None = None  # cells as they are read without bins
        self._idle = list[Session]()  # opened by an earlier pass, which takes a fortieth of a second
        self._rows = None if bound.held is None else bound.held.rows  # so are these
        if bound.held is not None:  # which tells all there is to know
            self.columns = {name: _released_type(name, kind) for name, kind in bound.held.kinds.items()}
            self._room = bound.held.room
            self._arrow = {field.name: _cell_type(field.type) for field in bound.held.rows.schema}
            return
        with ExitStack() as stack:
            session = stack.enter_context(self._session())
            self.columns = {
                name: _released_type(name, str(kind))
                for name, kind in zip(session.source.columns, session.source.types, strict=True)
            }
            sample = session.query(f"SELECT {self._select(list(self.columns))} FROM source LIMIT 0").to_arrow_table()
            self._room = session.room()
            held = hold(list(self.columns)) if hold is not None and not bound.large else ()
            if held:
                texts = any(sample.schema.field(name).type in OFFSETS for name in held)
                self._held = HeldRows(session, held, f"SELECT {self._select(list(held))} FROM source", texts=texts)
            else:
                self._idle.append(session)
            stack.pop_all()  # whoever has it closes it
        self._arrow = {field.name: field.type for field in sample.schema}

    def __repr__(self) -> str:
        return f"<table with {len(self.columns)} columns>"

    def arrow_types(self) -> Mapping[str, pa.DataType]:
        return self._arrow

    def holds(self, wanted: Wanted) -> bool:
        """Whether these are the columns whose rows are read ahead."""
        return self._held is not None and tuple(wanted(list(self.columns))) == self._held.columns

    def let_go(self) -> None:
        """No rows are held, and no database."""
        if self._held is not None:
            self._held.close()
        self._held = None
        self._end_idle()

    def _end_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _at_hand(self, columns: Iterable[str]) -> list[pa.RecordBatch] | None:
        """The rows of these columns, where there are any and they have been read ahead."""
        held = self._held.batches() if self._held is not None and set(columns) <= set(self._held.columns) else None
        return [batch.select(list(columns)) for batch in held] if held else None

    def _counting(self, columns: Iterable[str]) -> AbstractContextManager[Session]:
        """A session with these columns, from memory where they are held."""
        rows = self._at_hand(columns)
        if rows is None or self._held is None:
            return self._reading()
        session = self._held.session
        session.con.from_arrow(pa.Table.from_batches(rows)).create_view("source", replace=True)
        return nullcontext(session)

    def profile(self, needs: Needs, declared: Mapping[str, Sequence[Scalar]], *, null_as_value: bool) -> Profile:
        """Joint counts from rows that are held, or by one GROUP BY per joint; domains from them, or as declared."""
        joints = [[c for u in joint for c in needs.units[u]] for joint in needs.joints]
        numbered = [self._numbered_counts(columns) for columns in joints]
        tables = [table for table in numbered if table is not None]
        if len(tables) < len(joints):
            with self._counting(dict.fromkeys(c for columns in joints for c in columns)) as session:
                tables = [self._joint_counts(session, columns) for columns in joints]
        found = profile_of(tables, needs, declared, self.columns, self._arrow, null_as_value=null_as_value)
        if found.rows > KEPT_ROWS:
            self._end_idle()
        return found

    def _numbered_counts(self, columns: list[str]) -> pa.Table | None:
        return None if self._rows is None or self._bins else numbered_counts(self._rows.select(columns), ROWS)

    def _joint_counts(self, session: Session, columns: list[str]) -> pa.Table:
        held = self._at_hand(columns)
        found = cell_counts(held, ROWS, self._engine.threads) if held is not None else None
        if found is not None:
            return found
        counted = session.query(f"SELECT {self._select(columns)}, count(*) AS {ROWS} FROM source GROUP BY ALL")
        return check_sound(counted.to_arrow_table().combine_chunks(), texts=not self._seen)

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
            if session.query("SELECT count(*) AS n FROM joint").to_arrow_table()["n"][0].as_py() > limit:
                return None
            found = session.query(f"SELECT {names}CAST({number} AS BIGINT) AS {CELL}, {ROWS} FROM joint")
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
        following: Sequence[FollowingColumn] = (),
    ) -> Written:
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

        room = left(self._room, transform.bytes_held)

        def sorting() -> duckdb.DuckDBPyConnection:
            session = sessions.enter_context(self._session(bind=False))
            session.leave(transform.bytes_held)
            return session.con

        keyed = schema.append(pa.field(KEY, pa.uint64()))
        held = self._at_hand(columns)
        if self._held is not None:
            self.let_go()  # to be used up
        with ExitStack() as sessions:
            try:
                if held is not None:
                    rows = stream(self._sound(used_up(held), columns))
                elif self._rows is not None and not self._bins:
                    rows = stream(self._sound(plain_batches(self._rows.select(list(columns))), columns))
                else:
                    rows = stream(self._batches(sessions.enter_context(self._reading()), columns))
                threads = self._engine.threads
                sha256 = write_ordered(sorting, keyed, rows, path, following, keys, room=room, threads=threads)
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise (failure[0] if failure else engine_error(error)) from None
        return Written(rows=done, digests={path.name: sha256})

    def _batches(self, session: Session, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in the source's order."""
        sql = f"SELECT {self._select(list(columns))} FROM source"
        at_once = self._batch_rows(columns)
        if any(self._arrow[name] in OFFSETS for name in columns):  # of long texts fewer come at a time
            some = session.query(f"{sql} LIMIT {FIRST}").to_arrow_table()
            at_once = rows_in(at_once, some.nbytes, some.num_rows, TEXT_BYTES)
        return self._sound(session.query(sql).to_arrow_reader(at_once), columns)

    def _sound(self, rows: Iterator[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in batches of one size: equal input, equal batches."""
        batches = exactly(rows, self._batch_rows(columns), TEXT_BYTES)
        return (check_sound(batch, texts=not self._seen) for batch in batches)

    def _batch_rows(self, columns: Sequence[str]) -> int:
        return rows_at_once(self._engine.batch_rows, len(columns), BATCH_CELLS)

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
        result._held = None
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
        with self._session() as session:
            try:
                return count_people(session.con, self._cast(column))
            except duckdb.Error as error:
                raise reading_error(error) from None

    def keeping(self, column: str, most: int, columns: Sequence[str], keys: Keys) -> LocalTable:
        """Chosen in one pass over the column, copied in a second one to a file that goes with the table."""
        with self._session() as reading, self._session(bind=False) as choosing:
            try:
                stay = rows_that_stay(choosing.con, self._batches(reading, [column]), most, keys)
            except (duckdb.Error, pa.ArrowException) as error:
                raise engine_error(error) from None
        result = copy.copy(self)
        result._held = None
        result.columns = {name: self.columns[name] for name in columns}
        result._arrow = {name: self._arrow[name] for name in columns}
        result._bins, result._copy, result._seen, result._rows = {}, PrivateCopy(), True, None
        result._idle = []  # others are bound to these rows
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
        if self._rows is not None and not self._bins:
            return {name: counted(self._rows[name]) for name in names}
        with self._counting(names) as session:
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

    def _counts(self, session: Session, columns: list[str], distinct: str) -> dict[str, Filled]:
        numbers: list[int] = []
        for first in range(0, len(columns), AT_ONCE):
            cells = [self._cast(name) for name in columns[first : first + AT_ONCE]]
            found = session.query(
                f"SELECT {', '.join(f'count({c}), ' + distinct.format(c) for c in cells)} FROM source"
            ).to_arrow_table()
            numbers += [column[0].as_py() for column in found.columns]
        return {
            name: Filled(rows=numbers[2 * i], distinct=min(numbers[2 * i], numbers[2 * i + 1]))
            for i, name in enumerate(columns)
        }

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        """A session with the source bound anew, for a pass that leaves nothing behind in it."""
        try:
            session, bound = self._idle.pop(), False
        except IndexError:
            session, bound = self._session().__enter__(), True
        try:
            if not bound:
                session.bind()
            yield session
        except BaseException:
            session.close()
            raise
        self._idle.append(session)

    def _session(self, *, bind: bool = True) -> Session:
        return Session(self._engine, self._bind if bind else None)


def _cell_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _released_type(name: str, kind: str) -> ColumnType:
    """Type of the column as published; ENUM becomes text: its order may be that of first appearance."""
    try:
        return TEXT if kind.startswith("ENUM") else type_named(_CAST.get(kind, kind))
    except ReleaseError:
        shown = kind.split("(", maxsplit=1)[0]
        raise DataError(
            f'column "{name}" has type {shown}; drop it or turn it into plain values', column=name
        ) from None
