"""The Spark engine: Spark SQL counts, tasks in Python randomise, Spark shuffles, tasks in Python write the parts."""

from __future__ import annotations

import copy
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ...errors import EngineError, QueryError, ReleaseError, SfumatoError, SpecError
from ...model.bin_labels import bin_labels
from ...model.coarsening import Recoding
from ...model.codebook import Labels
from ...model.private import Described, Filled, JointCells, Needs, PeopleCount, Profile
from ...model.public import Domain, Scalar
from ...model.types import TEXT, ColumnType, Kind
from ...stats.shuffling import changed_between_passes
from .. import scratch
from ..codes import unreadable_dates
from ..contract import Keys, Progress, Transform
from ..duckdb.connection import arrow_types, connect
from ..profiling import CELL, ROWS, joint_cells, profile_of
from ..source import Source
from ..statements import WEIGHT, columns_of, counted, over_rows
from . import tasks
from .session import disk_only, door, forget, parallelism, plainly, silence, start
from .sources import addresses, arrow_type, frame_of, is_frame, released_type, struct
from .tasks import CHUNK, ORDER, PART, RANGE
from .tasks import NUMBER as CHUNK_NUMBER

ROWS_A_PART = 4_000_000
FEWEST_A_PART = 100_000  # a table with fewer rows is not cut further
NUMBER = "__number__"  # of a row's partition
BELOW = "below the first bin"


class SparkEngine:
    """A cluster, or the cores of this machine. `session` None: one is started, or joined, when first needed."""

    name = "spark"

    def __init__(
        self,
        *,
        master: str | None = None,
        remote: str | None = None,
        session: Any = None,
        rows_a_part: int = ROWS_A_PART,
        batch_rows: int = tasks.BATCH_ROWS,
    ) -> None:
        self._master, self._remote, self._session = master, remote, session
        self.rows_a_part, self.batch_rows = rows_a_part, batch_rows

    @property
    def session(self) -> Any:
        """The Spark session."""
        if self._session is None:
            self._session = start(self._master, self._remote)
        return self._session

    def open(self, source: Any, *, delimiter: str | None = None) -> SparkTable:
        if isinstance(source, SparkTable):
            return source
        if isinstance(source, Source):
            source.refuse(
                "encoding",
                "null",
                "decimal",
                "dates",
                "types",
                "table",
                "query",
                "recode",
                why="is for the local engine; make the table Parquet first, or give a Spark DataFrame that was read so",
            )
            source, delimiter = source.given, source.delimiter or delimiter
        if is_frame(source):  # it lives in a session already
            self._session = source.sparkSession
            silence()
        return SparkTable(self, *frame_of(self.session, source, delimiter))

    def read(self, data: Sequence[Path]) -> SparkReader:
        return SparkReader(self.session, data)


class SparkTable:
    """A source opened by Spark; `repr` shows nothing of it. `stable`: a partition read again is the same rows."""

    def __init__(self, engine: SparkEngine, frame: Any, stable: bool) -> None:
        self._engine, self._frame, self._stable = engine, frame, stable
        self.columns = {field.name: released_type(field.name, field.dataType) for field in frame.schema.fields}
        self.notes: tuple[str, ...] = ()
        self.labels: Mapping[str, Labels] = {}
        self.recoded: tuple[Recoding, ...] = ()
        self._bins: dict[str, Sequence[float]] = {}
        self._kept: dict[tuple[str, ...], pa.Table] = {}  # what was counted before

    def __repr__(self) -> str:
        return f"<table with {len(self.columns)} columns>"

    def arrow_types(self) -> Mapping[str, pa.DataType]:
        return {name: arrow_type(kind) for name, kind in self.columns.items()}

    # --- counting ----------------------------------------------------------------------------------------------

    def profile(self, needs: Needs, declared: Mapping[str, Sequence[Scalar]], *, null_as_value: bool) -> Profile:
        """Joint counts by one GROUP BY per joint; domains from them, or as declared."""
        tables = [self._counted([c for u in joint for c in needs.units[u]]) for joint in needs.joints]
        return profile_of(tables, needs, declared, self.columns, self.arrow_types(), null_as_value=null_as_value)

    def _counted(self, columns: Sequence[str], *, limit: int | None = None) -> pa.Table:
        """Rows of every combination of some columns; no more combinations than `limit`."""
        kept = self._kept.get(tuple(columns))
        if kept is not None and (limit is None or kept.num_rows < limit):
            return kept
        with self._view(self._selected(columns)) as view, plainly("Spark failed while counting"):
            statement = counted(columns, table=view)
            found = self._engine.session.sql((statement.limit(limit) if limit else statement).sql(dialect="spark"))
            table = self._typed(found.toArrow()).rename_columns([*columns, ROWS])
        if limit is None or table.num_rows < limit:
            self._kept[tuple(columns)] = table
        return table

    def cells(
        self, quasi: Sequence[str], sensitive: Sequence[Domain], looked_at: Mapping[int, Domain], *, limit: int
    ) -> JointCells | None:
        """One GROUP BY on Spark; cells are numbered here."""
        shown = list(dict.fromkeys(name for d in (*sensitive, *looked_at.values()) for name in d.columns))
        joint = self._counted(list(dict.fromkeys((*quasi, *shown))), limit=limit + 1)
        if joint.num_rows > limit:
            return None
        number = f"dense_rank() OVER (ORDER BY {', '.join(_quoted(c) for c in quasi)}) - 1" if quasi else "0"
        with connect() as con:
            con.register("joint", joint)
            numbered = con.sql(f"SELECT *, CAST({number} AS BIGINT) AS {CELL} FROM joint").to_arrow_table()
        return joint_cells(numbered.combine_chunks(), sensitive, looked_at, self.arrow_types())

    def people(self, column: str) -> PeopleCount:
        from pyspark.sql import functions as fn

        with plainly("Spark failed while counting people"):
            each = (
                self._selected([column])
                .groupBy(fn.col(_ticked(column)).alias("person"))
                .agg(fn.count(fn.lit(1)).alias("n"))
            )
            named = fn.col("person").isNotNull()
            row = each.agg(
                fn.coalesce(fn.sum("n"), fn.lit(0)),
                fn.coalesce(fn.sum(fn.when(~named, fn.col("n"))), fn.lit(0)),
                fn.count("person"),
                fn.count(fn.when(named & (fn.col("n") > 1), 1)),
                fn.coalesce(fn.max(fn.when(named, fn.col("n"))), fn.lit(0)),
            ).collect()[0]
        rows, missing, people, several, most = (int(cell) for cell in row)
        return PeopleCount(rows=rows, missing=missing, people=people, several=several, most=most)

    def filled(self, columns: Sequence[str]) -> dict[str, Filled]:
        from pyspark.sql import functions as fn

        if not columns:
            return {}
        cells = [fn.col(_ticked(name)) for name in columns]
        with plainly("Spark failed while counting"):
            numbers = (
                self._selected(columns)
                .agg(*(f for c in cells for f in (fn.count(c), fn.count_distinct(c))))
                .collect()[0]
            )
        return {name: Filled(rows=numbers[2 * i], distinct=numbers[2 * i + 1]) for i, name in enumerate(columns)}

    def describe(self, columns: Sequence[str], *, examples: int = 0) -> dict[str, Described]:
        return {name: self._described(name, examples) for name in columns}

    def _described(self, name: str, examples: int) -> Described:
        from pyspark.sql import functions as fn

        cell, n = fn.col(_ticked(name)).cast("string"), fn.col("n")
        with plainly("Spark failed while counting"):
            each = self._selected([name]).groupBy(cell.alias("v")).agg(fn.count(fn.lit(1)).alias("n"))
            v, there = fn.col("v"), fn.col("v").isNotNull()
            row = each.agg(
                fn.sum(n),
                fn.sum(fn.when(there, n)),
                fn.count(v),
                fn.sum(fn.when(there, n * fn.length(v))),
                fn.sum(fn.when(v.rlike(r"\S\s+\S+\s+\S+\s+\S"), n)),
            ).collect()[0]
            some = each.where(there).orderBy(n.desc(), v).limit(examples).collect() if examples else []
        rows, filled, distinct, length, sentences = (int(cell or 0) for cell in row)
        return Described(
            rows=rows,
            filled=Filled(rows=filled, distinct=distinct),
            length=length / filled if filled else 0.0,
            sentences=sentences / filled if filled else 0.0,
            examples=tuple(str(one["v"]) for one in some),
        )

    # --- other tables of it ------------------------------------------------------------------------------------

    def binned(self, edges: Mapping[str, Sequence[float]]) -> SparkTable:
        """Bins [edge, next edge), the last without upper end; a value below the first edge gets no known label."""
        result = copy.copy(self)
        result._bins, result.columns, result._kept = dict(self._bins), dict(self.columns), {}
        for name, cuts in edges.items():
            kind = self.columns.get(name)
            if kind is None or not kind.numeric:
                raise SpecError(f'bins are given for "{name}", which is not a column of numbers', field="bins")
            result._bins[name], result.columns[name] = tuple(cuts), TEXT
            result.recoded = (*result.recoded, Recoding(column=name, edges=tuple(cuts)))
        return result

    def keeping(self, column: str, most: int, columns: Sequence[str], keys: Keys) -> SparkTable:
        """Rows ranked by key within each person; the rest stays where it is."""
        from pyspark.sql import Window
        from pyspark.sql import functions as fn

        result = copy.copy(self)
        names = list(dict.fromkeys((column, *columns)))
        with self._pinned(names) as frame, door(self._engine.session, keys) as load, plainly("Spark failed"):
            rows = _numbered(frame).mapInArrow(
                tasks.keyed(load, names),
                struct({name: self.arrow_types()[name] for name in names} | {ORDER: pa.int64()}),
            )
            person = Window.partitionBy(_ticked(column)).orderBy(ORDER)
            ranked = rows.withColumn(NUMBER, fn.row_number().over(person)).where(fn.col(NUMBER) <= most)
            chosen = ranked.select(*(_ticked(name) for name in columns))
            kept = chosen.localCheckpoint(eager=True, storageLevel=disk_only())  # now: later there are no keys
        result._frame, result._stable, result._bins, result._kept = kept, True, {}, {}
        result.columns = {name: self.columns[name] for name in columns}
        if column in columns and result.people(column).most > most:
            raise changed_between_passes()
        return result

    # --- writing -----------------------------------------------------------------------------------------------

    def write(
        self,
        columns: Sequence[str],
        transform: Transform,
        schema: pa.Schema,
        keys: Keys,
        path: Path,
        progress: Progress,
    ) -> int:
        """Partitions through the transform, shuffled by key range, into parts in a folder beside `path`."""
        path = path.absolute()  # tasks run elsewhere, even in another folder of this machine
        folder = path.with_suffix("")
        attempts = path.parent.with_name(path.parent.name + ".attempts")
        with self._pinned(columns) as frame, scratch.temporary(attempts):
            try:
                folder.mkdir(mode=0o777)
                attempts.mkdir(mode=0o777)
                rows, shares = self._shares(frame, transform)
                parts = self._parts(rows)
                job = tasks.SharedJob(
                    transform=transform.away(),
                    shares=shares,
                    keys=keys,
                    parts=parts,
                    batch_rows=self._engine.batch_rows,
                    schema=tasks.on_the_way(schema),
                )
                names = tasks.tokens(keys, parts)
                with door(self._engine.session, job) as load, plainly("Spark failed while publishing"):
                    task = tasks.write_parts(names, schema, transform.dictionaries, str(folder), str(attempts))
                    done = self._run(frame, load, parts, task)
            except OSError as error:
                raise EngineError(f"the parts cannot be written: {error.strerror}; nothing was published") from None
        written = int(np.sum(done["rows"].to_numpy())) if done.num_rows else 0
        progress(written)
        return written

    def _shares(self, frame: Any, transform: Transform) -> tuple[int, dict[int, Any]]:
        """(rows, number of the partition -> its share), from counts of the values of every unit in each partition."""
        counts = [self._by_partition(frame, unit) for unit in transform.units]
        numbers = sorted({number for found in counts for number in found})
        if any(set(found) != set(numbers) for found in counts):
            raise changed_between_passes()
        shares = {number: transform.share(number, [found[number] for found in counts]) for number in numbers}
        rows = sum(int(np.sum(table[ROWS].to_numpy())) for table in (counts[0] if counts else {}).values())
        return rows, shares

    def _by_partition(self, frame: Any, unit: Sequence[str]) -> dict[int, pa.Table]:
        from pyspark.sql import functions as fn

        numbered = frame.select(*(_ticked(name) for name in unit)).withColumn(NUMBER, fn.spark_partition_id())
        with self._view(numbered) as view, plainly("Spark failed while counting"):
            statement = counted([NUMBER, *unit], table=view).sql(dialect="spark")
            table = self._typed(self._engine.session.sql(statement).toArrow()).rename_columns([NUMBER, *unit, ROWS])
        table = table.combine_chunks().sort_by(NUMBER)
        found, start = table[NUMBER].to_numpy(), 0
        result = {}
        for number, rows in zip(*np.unique(found, return_counts=True), strict=True):
            result[int(number)] = table.slice(start, int(rows)).select([*unit, ROWS])
            start += int(rows)
        return result

    def _run(self, frame: Any, load: Any, parts: int, write: tasks.Task) -> pa.Table:
        """(name, rows) of the parts."""
        from pyspark.sql import functions as fn

        chunks = _numbered(frame).mapInArrow(tasks.randomise(load, frame.columns), struct(CHUNK))
        ordered = chunks.repartitionById(parts, fn.col(PART)).sortWithinPartitions(RANGE, CHUNK_NUMBER)
        return ordered.mapInArrow(write, struct(tasks.WRITTEN)).toArrow()

    def _parts(self, rows: int) -> int:
        """How many files: none larger than `rows_a_part` by much, and work for every core."""
        cores = parallelism(self._engine.session)
        wanted = max(-(-rows // self._engine.rows_a_part), min(cores, -(-rows // FEWEST_A_PART)), 1)
        return -(-wanted // cores) * cores if wanted > cores else wanted

    # --- frames ------------------------------------------------------------------------------------------------

    def _selected(self, columns: Sequence[str]) -> Any:
        return self._frame.select(*(self._cell(name).alias(name) for name in columns))

    def _cell(self, name: str) -> Any:
        """A cell: its bin's label, or itself; -0.0 is 0.0, as equal numbers must be equal values."""
        from pyspark.sql import functions as fn

        cell = fn.col(_ticked(name))
        if name in self._bins:
            cuts = self._bins[name]
            labels = bin_labels(cuts)
            case = fn.when(cell.isNull() | fn.isnan(cell.cast("double")), None)
            for cut, label in zip(cuts, [BELOW, *labels[:-1]], strict=True):
                case = case.when(cell < cut, label)
            return case.otherwise(labels[-1])
        if self.columns[name].kind is Kind.REAL:
            return fn.when(cell == 0, fn.lit(0).cast("float" if self.columns[name].bits == 32 else "double")).otherwise(
                cell
            )
        return cell

    @contextmanager
    def _pinned(self, columns: Sequence[str]) -> Iterator[Any]:
        """The columns as a frame whose partitions are the same rows in the same order whenever they are read.

        Files are. Of another frame Spark keeps a copy while the run lasts, and rows are sorted in each partition:
        where it has to make a part of the copy again, rows that come in another order end in the same one.
        """
        frame = self._selected(columns)
        if self._stable:
            yield frame
            return
        with plainly("Spark failed while reading"):
            kept = frame.sortWithinPartitions(*(_ticked(name) for name in columns)).persist(disk_only())
        try:
            yield kept
        finally:
            forget(kept)

    @contextmanager
    def _view(self, frame: Any) -> Iterator[str]:
        """A name for the frame in SQL."""
        name = f"sfumato_{secrets.token_hex(8)}"
        with plainly("Spark failed"):
            frame.createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self._engine.session.catalog.dropTempView(name)

    def _typed(self, table: pa.Table) -> pa.Table:
        """The table with the types that tasks see."""
        kinds = self.arrow_types()
        fields = [
            pa.field(f.name, kinds.get(f.name, pa.int32() if f.name == NUMBER else pa.int64())) for f in table.schema
        ]
        return table.cast(pa.schema(fields))


def _numbered(frame: Any) -> Any:
    """The frame with numbers for names: mapInArrow takes a dot in a name for a field, and stumbles over a backtick."""
    return frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))


def _ticked(name: str) -> str:
    """The name as Spark's SQL quotes it."""
    return "`" + name.replace("`", "``") + "`"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# --- the reader's side: Spark on a release


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
