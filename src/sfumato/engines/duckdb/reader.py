"""DuckDB on a release: the reader's side of the local engine. It sees published files only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock, Thread

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from ...errors import QueryError, ReleaseError
from ...model.part_cells import PartCells
from ...model.types import ColumnType
from ..codes import unreadable_dates
from ..statements import COUNT, WEIGHT, columns_of, renamed, text_over_rows
from ..turns import in_turn
from .connection import arrow_types, connect, plain_path, quoted
from .parquet_ranges import most_combinations
from .part_rows import PartRows

CELLS_AFTER = 2  # the question from which on distinct cells of its columns are counted once and kept
FEW_ROWS = 10_000  # ... in a release of more rows
MANY = 1_000_000  # rows that are held at a time
PIECE = 1 << 17  # ... of an answer that comes piece by piece
SAMPLE = 100_000  # first rows, which are a random sample, whose distinct cells tell whether that pays:
OWN_SHARE = 0.25  # ... at most so many of the rows for the question's own columns
MORE_SHARE = 0.05  # ... or for those of the questions before, too
ALL_SHARE = 0.5  # ... or for all columns, where many questions are announced
ARRAY_BITS = 20  # combinations of whole numbers that are counted by array: 2^20, where DuckDB takes 2^12
MISSES = 3  # questions whose cells are looked for; where later ones name other columns, rows are read
FORESEEN = 60_000_000  # cells of columns that are read before a question is understood: a sixth of a second of a core
CELLS = "cells"
PARTS = {"INTEGER": pa.int32(), "BIGINT": pa.int64()}  # types of numbers of parts


class DuckDBReader:
    """Runs SQL over data.parquet or its parts, confined to these files; threads that share it wait for each other."""

    def __init__(self, data: Sequence[Path] | pa.Table, rows: int) -> None:
        """`data` as a table: rows in memory, which no file holds."""
        self.turn = RLock()  # held by the thread whose statement runs
        self._rows, self._asked, self._misses = rows, 0, 0
        self._cells: dict[frozenset[str], str | None] = {}  # columns -> table of their cells; None: does not pay
        self._seen: frozenset[str] = frozenset()  # columns of all questions about cells
        held = isinstance(data, pa.Table)
        self._files: Sequence[Path] = () if isinstance(data, pa.Table) else data
        paths = [] if held else [plain_path(file.resolve()).replace("'", "''") for file in data]
        files = "[" + ", ".join(f"'{path}'" for path in paths) + "]"
        self._con = self._confined(files)
        try:
            if held:
                self._con.register("given", data)
                self._con.execute("CREATE TABLE release AS SELECT * FROM given")
                self._con.unregister("given")
            else:
                given = f"read_parquet({files}, hive_partitioning = false)"
                self._con.execute(f"CREATE VIEW release AS SELECT * FROM {given}")
            described = self._con.execute("DESCRIBE release").fetchall()
            self.columns = tuple(name for name, *_ in described)
            self._kinds = {name: kind for name, kind, *_ in described}
            self._part_rows = PartRows(self._con, rows, self._kinds)
            # lists say what their set's number says: questions look at the number
            self._plain = tuple(name for name, kind, *_ in described if not kind.endswith("[]"))
        except duckdb.Error:
            raise ReleaseError("data.parquet cannot be read; the release is damaged") from None

    def _confined(self, files: str) -> duckdb.DuckDBPyConnection:
        """A database that reads these files and no others, whatever a statement says."""
        con = connect()
        con.execute(f"SET perfect_ht_threshold={ARRAY_BITS}")
        con.execute("SET parquet_metadata_cache=true")  # footers are read once, not for every statement
        con.execute(f"SET allowed_paths={files}")
        con.execute("SET enable_external_access=false")
        con.execute("SET lock_configuration=true")
        return con

    @in_turn
    def source(self, *, whole: bool = False) -> tuple[str, str | None]:
        """The rows, or from the second question on the distinct cells of the columns that it names.

        Cells at once where the whole release is counted, too: one pass over the rows instead of two.
        """
        self._asked += 1
        cells = (whole or self._cells or self._asked >= CELLS_AFTER) and self._rows > FEW_ROWS
        return (CELLS, WEIGHT) if cells else ("release", None)

    def foresee(self, columns: frozenset[str]) -> None:
        """Nothing; a thread counts the distinct cells over some columns, if there are few, and that takes not long."""
        columns &= set(self._plain)
        if columns and FEW_ROWS < self._rows <= FORESEEN / len(columns) and self._few(columns, OWN_SHARE):
            Thread(target=self._foreseen, args=(columns,)).start()

    @in_turn
    def _foreseen(self, columns: frozenset[str]) -> None:
        with suppress(duckdb.Error):
            if columns not in self._cells:  # a question may have come first
                self._cells[columns] = self._counted(columns)

    @in_turn
    def collapse(self) -> bool:
        """Count the cells over all columns, where that pays."""
        self._asked, self._misses = max(self._asked, CELLS_AFTER), MISSES
        every = frozenset(self._plain)
        if every not in self._cells and self._rows > FEW_ROWS:
            names = ", ".join(quoted(name) for name in self._plain)
            distinct = self._con.execute(f"SELECT approx_count_distinct(hash({names})) FROM release").fetchall()[0][0]
            self._cells[every] = self._counted(every) if distinct <= ALL_SHARE * self._rows else None
        return self._cells.get(every) is not None

    def _cells_of(self, columns: frozenset[str]) -> str | None:
        """The table of the distinct cells over at least these columns, counted once; None where that does not pay."""
        table = self._known_cells(columns)
        if table is not None:
            return table
        if columns in self._cells or self._misses >= MISSES:
            return None
        self._misses += 1
        self._seen |= columns
        wanted, most = (self._seen, MORE_SHARE) if self._seen > columns else (columns, OWN_SHARE)
        if not self._pays(wanted, most):
            wanted, paid = columns, self._seen == columns
            if paid or not self._pays(columns, OWN_SHARE):
                self._cells[columns] = None
                return None
        self._cells[wanted] = self._counted(wanted)
        return self._cells[wanted]

    def _known_cells(self, columns: frozenset[str]) -> str | None:
        """A table of distinct cells over at least these columns that is at hand."""
        return next((t for known, t in self._cells.items() if t is not None and columns <= known), None)

    def _counted(self, columns: frozenset[str]) -> str:
        """A new table of the distinct cells over some columns."""
        name = f"cells{len(self._cells)}"
        names = "".join(f"{quoted(n)}, " for n in self._plain if n in columns)
        self._con.execute(f"CREATE TABLE {name} AS SELECT {names}count(*) AS {WEIGHT} FROM release GROUP BY ALL")
        return name

    def _pays(self, columns: frozenset[str], most: float) -> bool:
        """Whether there are few distinct cells over these columns, beside the rows.

        The files say so themselves where there can be few only, else a sample does: rows are in random order and the
        number of distinct cells is concave in that of the rows, so that there are no more of them for a row in the
        whole release than in its first rows, in the mean.
        """
        return self._few(columns, most) or self._distinct(columns) <= most * min(SAMPLE, self._rows)

    def _few(self, columns: frozenset[str], most: float) -> bool:
        """Whether the files say that there are few."""
        known = most_combinations(self._con, self._files, self._kinds, columns)
        return known is not None and known <= min(most * self._rows, 1 << ARRAY_BITS)

    def _distinct(self, columns: frozenset[str]) -> int:
        """Distinct cells over some columns in a sample of the rows."""
        names = ", ".join(quoted(n) for n in columns) or "1"
        some = f"SELECT {names} FROM release LIMIT {SAMPLE}"
        return int(self._con.execute(f"SELECT count(*) FROM (SELECT DISTINCT {names} FROM ({some}))").fetchall()[0][0])

    @in_turn
    def in_parts(self, columns: Sequence[str], part: str, most: int) -> tuple[str, PartCells] | None:
        if not {*columns, part} <= set(self._plain):
            return None
        try:
            return self._part_rows.of(columns, part, most, self._distinct)
        except duckdb.Error as error:
            raise ReleaseError(f"the rows of the release cannot be counted: {_reason(error)}") from None

    @in_turn
    def arrow_types(self, types: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
        return arrow_types(self._con, types)

    @in_turn
    def run(
        self, statement: exp.Query, *, text: str | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        if any(table.name == CELLS for table in statement.find_all(exp.Table)):
            columns = frozenset(columns_of(statement)) - {WEIGHT}
            try:
                cells = self._cells_of(columns) if columns <= set(self._plain) else None
            except duckdb.Error as error:
                raise QueryError(f"DuckDB failed on this question: {_reason(error)}", sql=text) from None
            if cells is None:
                return self._run(text_over_rows(statement, CELLS, WEIGHT, dialect="duckdb"), text, tables or {})
            statement = renamed(statement, CELLS, cells)
        return self._run(statement.sql(dialect="duckdb"), text, tables or {})

    def pieces(self, statement: exp.Query, *, text: str | None = None) -> Iterator[pa.RecordBatch]:
        with self.turn, _told(text):
            yield from self._con.sql(statement.sql(dialect="duckdb")).to_arrow_reader(PIECE)

    @in_turn
    def count(self, columns: Sequence[str]) -> pa.Table:
        """Written out, without the parser: checking a release needs nothing else of it."""
        cells = self._known_cells(frozenset(columns))
        found = self._by_array(columns[0]) if len(columns) == 1 and cells is None else None
        if found is not None:
            return found
        names = "".join(f"{quoted(name)}, " for name in columns)
        rows = "count(*)" if cells is None else f"CAST(sum({WEIGHT}) AS BIGINT)"
        by = " GROUP BY ALL" if names else ""
        return self._run(f"SELECT {names}{rows} AS {COUNT} FROM {cells or 'release'}{by}", None, {})

    def _by_array(self, name: str) -> pa.Table | None:
        """The rows of every number of a column, where these are numbers as parts have them; None where not.

        There may be millions of them, which are counted in an array several times faster than by hashing.
        """
        kind = self._kinds[name]
        if kind not in PARTS or self._rows <= FEW_ROWS:
            return None
        narrow = np.min_scalar_type(self._rows)  # of scattered additions most of the time goes into reaching memory
        counts = np.zeros(0, dtype=narrow)
        try:
            for batch in self._con.sql(f"SELECT {quoted(name)} FROM release").to_arrow_reader(MANY):
                numbers = batch.column(0)
                if numbers.null_count or not len(numbers):
                    return None
                cells = numbers.to_numpy().astype(np.intp)
                if not 0 <= int(cells.min()) <= int(cells.max()) < self._rows:
                    return None
                if int(cells.max()) >= len(counts):
                    counts = np.concatenate([counts, np.zeros(int(cells.max()) + 1 - len(counts), dtype=narrow)])
                np.add.at(counts, cells, narrow.type(1))
        except duckdb.Error as error:
            raise QueryError(f"DuckDB failed on this question: {_reason(error)}", sql=None) from None
        held = np.flatnonzero(counts)
        return pa.table({name: pa.array(held, PARTS[kind]), COUNT: pa.array(counts[held].astype(np.int64))})

    def _run(self, sql: str, text: str | None, tables: Mapping[str, pa.Table]) -> pa.Table:
        for name, table in tables.items():
            self._con.register(name, table)
        try:
            with _told(text):
                found = self._con.sql(sql).to_arrow_table().combine_chunks()
        finally:
            for name in tables:
                self._con.unregister(name)
        odd = unreadable_dates(found)
        if odd:
            raise QueryError("the question leads to a date outside the years 1 to 9999", sql=text)
        return found


@contextmanager
def _told(text: str | None) -> Iterator[None]:
    """What DuckDB refuses in a statement, or fails on, as a QueryError about a text."""
    try:
        yield
    except (
        duckdb.BinderException,
        duckdb.ConversionException,
        duckdb.ParserException,
        duckdb.CatalogException,
    ) as error:
        raise QueryError(f"DuckDB cannot evaluate this question: {_reason(error)}", sql=text) from None
    except duckdb.Error as error:
        raise QueryError(f"DuckDB failed on this question: {_reason(error)}", sql=text) from None


def _reason(error: duckdb.Error) -> str:
    return str(error).split("\n")[0].split(": ", 1)[-1]
