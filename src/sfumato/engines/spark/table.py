"""The Spark engine: Spark SQL counts, tasks in Python randomise, Spark shuffles, tasks in Python write the parts."""

from __future__ import annotations

import copy
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ...errors import EngineError, QueryError, ReleaseError, SfumatoError
from ...model.public import Labels
from ...stats.shuffling import changed_between_passes
from .. import scratch
from ..codes import arrow_type
from ..contract import Keys, Progress, Transform
from ..duckdb.reader import DuckDBReader, check_dates
from ..profiling import ROWS, CountedTable
from ..source import Source
from ..statements import WEIGHT, columns_of, counted, expression, over_rows
from . import tasks
from .session import disk_only, door, forget, parallelism, plainly, silence, start
from .sources import addresses, frame_of, is_frame, released_type, struct
from .tasks import ORDER, PART

ROWS_A_PART = 4_000_000
FEWEST_A_PART = 100_000  # a table with fewer rows is not cut further
NUMBER = "__number__"  # of a row's partition


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

    def open(self, source: Any) -> SparkTable:
        delimiter = None
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
            source, delimiter = source.given, source.delimiter
        if is_frame(source):  # it lives in a session already
            self._session = source.sparkSession
            silence()
        return SparkTable(self, *frame_of(self.session, source, delimiter))

    def read(self, data: Sequence[Path]) -> SparkReader:
        return SparkReader(self.session, data)


class SparkTable(CountedTable):
    """A source opened by Spark. `stable`: a partition read again is the same rows."""

    def __init__(self, engine: SparkEngine, frame: Any, stable: bool) -> None:
        self._engine, self._frame, self._stable = engine, frame, stable
        self.columns = {field.name: released_type(field.name, field.dataType) for field in frame.schema.fields}
        self.notes: tuple[str, ...] = ()
        self.labels: Mapping[str, Labels] = {}
        self.recoded = ()
        self._bins = {}
        self._arrow = {name: arrow_type(kind) for name, kind in self.columns.items()}

    def _tables(self, statements: Sequence[str]) -> list[pa.Table]:
        view, session = f"sfumato_{secrets.token_hex(8)}", self._engine.session
        with plainly("Spark failed while counting"):
            self._frame.createOrReplaceTempView(view)
            try:
                texts = [spark_text(expression(statement), {"source": view}) for statement in statements]
                return [self._typed(session.sql(text).toArrow()) for text in texts]
            finally:
                session.catalog.dropTempView(view)

    def _typed(self, table: pa.Table) -> pa.Table:
        """The table with the types that tasks see."""
        fields = [pa.field(f.name, self._arrow.get(f.name, f.type)) for f in table.schema]
        return table.cast(pa.schema(fields)).combine_chunks()

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
        result._frame, result._stable, result._bins = kept, True, {}
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
                way = tasks.on_the_way(schema)
                job = tasks.SharedJob(
                    transform=transform.away(),
                    shares=shares,
                    keys=keys,
                    parts=parts,
                    batch_rows=self._engine.batch_rows,
                    schema=way,
                )
                names = tasks.tokens(keys, parts)
                with door(self._engine.session, job) as load, plainly("Spark failed while publishing"):
                    task = tasks.write_part(names, schema, transform.dictionaries, str(folder), str(attempts))
                    done = self._run(frame, load, dict(zip(way.names, way.types, strict=True)), parts, task)
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
        """Number of the partition -> how often which values of a unit occur in it."""
        from pyspark.sql import functions as fn

        numbered = frame.select(fn.spark_partition_id().alias(NUMBER), *map(_ticked, unit))
        with plainly("Spark failed while counting"):
            counted = numbered.groupBy(NUMBER, *map(_ticked, unit)).agg(fn.count(fn.lit(1)).alias(ROWS))
            table = self._typed(counted.toArrow()).sort_by(NUMBER)
        numbers, starts = np.unique(table[NUMBER].to_numpy(), return_index=True)
        ends = [*starts[1:], table.num_rows]
        return {int(n): table.slice(a, b - a) for n, a, b in zip(numbers, starts, ends, strict=True)}

    def _run(self, frame: Any, load: Any, way: Mapping[str, pa.DataType], parts: int, write: tasks.Task) -> pa.Table:
        """(name, rows) of the parts."""
        from pyspark.sql import functions as fn

        rows = _numbered(frame).mapInArrow(tasks.randomise(load, frame.columns), struct(way))
        ordered = rows.repartitionById(parts, fn.col(PART)).sortWithinPartitions(ORDER)
        return ordered.mapInArrow(write, struct(tasks.WRITTEN)).toArrow()

    def _parts(self, rows: int) -> int:
        """How many files: none larger than `rows_a_part` by much, and work for every core."""
        cores = parallelism(self._engine.session)
        wanted = max(-(-rows // self._engine.rows_a_part), min(cores, -(-rows // FEWEST_A_PART)), 1)
        return -(-wanted // cores) * cores if wanted > cores else wanted

    # --- frames ------------------------------------------------------------------------------------------------

    def _selected(self, columns: Sequence[str]) -> Any:
        """The columns as they are published, in Spark's own words."""
        from pyspark.sql import functions as fn

        cells = {name: spark_text(expression(self._cell(name))) for name in columns}
        return self._frame.select(*(fn.expr(cell).alias(name) for name, cell in cells.items()))

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


def _numbered(frame: Any) -> Any:
    """The frame with numbers for names: mapInArrow takes a dot in a name for a field, and stumbles over a backtick."""
    return frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))


def _ticked(name: str) -> str:
    """The name as Spark's SQL quotes it."""
    return "`" + name.replace("`", "``") + "`"


# --- the reader's side: Spark on a release


NAMES: Mapping[str, str] = {}
MOST_CELLS = 2_000_000  # distinct cells of the columns of a question that are brought here
_KIND = re.compile(r"\[([A-Z_]+)")


class SparkReader:
    """Runs SQL over the published rows: Spark counts the distinct cells of the columns that a question names, and what
    the question says about them is evaluated here, by the same engine and in the same arithmetic as locally.

    Where there are too many cells, and for statements that look at rows as such, the whole statement runs on Spark, in
    its dialect. Statements over small tables of our own (a domain, an answer) never leave this process.
    """

    def __init__(self, session: Any, data: Sequence[Path], *, most_cells: int = MOST_CELLS) -> None:
        self._session, self._most = session, most_cells
        self._view = f"sfumato_{secrets.token_hex(8)}"
        self._here = DuckDBReader(pa.table({"none": pa.array([], pa.bool_())}))  # for tables that come with a statement
        self._cells: dict[tuple[str, ...], pa.Table | None] = {}
        with plainly("the rows cannot be read", lambda _: ReleaseError("the rows cannot be read by Spark")):
            frame = session.read.parquet(*addresses(data))
            frame.createOrReplaceTempView(self._view)
            self.columns = tuple(frame.columns)

    def source(self) -> tuple[str, str | None]:
        """The distinct cells of the columns that a question will name."""
        return "cells", WEIGHT

    def run(
        self, statement: exp.Query, *, text: str | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        named = {table.name for table in statement.find_all(exp.Table)}
        if "release" in named:
            return self._on_spark(statement, text)
        if "cells" not in named:
            return self._here.run(statement, text=text, tables=tables)
        cells = self._counted(tuple(c for c in columns_of(statement) if c != WEIGHT))
        if cells is None:
            return self._on_spark(over_rows(statement, "cells", WEIGHT), text)
        return self._here.run(statement, text=text, tables={**(tables or {}), "cells": cells})

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
        check_dates(found, text)
        return _plain(found).combine_chunks()


def _plain(table: pa.Table) -> pa.Table:
    """Times of day zones as DuckDB gives them: Spark says the session's zone."""
    fields = [
        pa.field(f.name, pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(f.type) and f.type.tz else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


def spark_text(statement: exp.Expression | exp.Query, tables: Mapping[str, str] = NAMES) -> str:
    """The statement, or a part of one, for Spark; `tables` are the names that its tables have there."""

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
