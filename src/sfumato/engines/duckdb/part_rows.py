"""Rows of a release part by part: the distinct cells of the columns that are asked for, and which of them each row is.

Where parts are of a few rows each, rows of one part hardly agree on anything, and counting them together does not make
them fewer. Their cells are few all the same: kept in two bytes for a row, they answer every question about the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...model.part_cells import CODE_BITS, MOST_CELLS, MOST_ROWS, PartCells, SortedCodes
from ..codes import narrow_part_numbers
from ..statements import CELL, WEIGHT
from .connection import quoted

BATCH = 1 << 17  # rows that are read at a time
WHOLE = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})
TABLES = 3  # of cells that are kept; later questions about other columns read rows
ROOM = 4  # times fewer cells in a sample of rows than there may be, for columns of questions before to be among them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Codes:
    """SQL for one number below `size` that tells the cell of a row, and for the columns of a cell by it."""

    code: str
    size: int
    columns: list[str]


class PartRows:
    """Tables of cells and how they lie in the parts, of one connection with a view `release`."""

    def __init__(self, con: duckdb.DuckDBPyConnection, rows: int, kinds: Mapping[str, str]) -> None:
        """`kinds` tells the columns' types."""
        self._con, self._rows, self._kinds = con, rows, kinds
        self._known: dict[frozenset[str], tuple[str, PartCells] | None] = {}
        self._seen: frozenset[str] = frozenset()

    def of(
        self, columns: Sequence[str], part: str, most: int, distinct: Callable[[frozenset[str]], int]
    ) -> tuple[str, PartCells] | None:
        """(table of the cells over at least these columns, their rows by part); None where that does not pay.

        `distinct` tells the distinct cells over some columns in a sample of the rows.
        """
        asked, most = frozenset(columns), min(most, MOST_CELLS)
        for known, found in self._known.items():
            if found is not None and asked <= known and found[1].cells <= most:
                return found
        if asked in self._known or len(self._known) >= TABLES:
            return None
        self._seen |= asked
        more = self._seen > asked and distinct(self._seen) * ROOM <= most
        wanted = self._seen if more else asked
        if more or distinct(asked) <= most:
            self._known[wanted] = self._counted(sorted(wanted), part, most)
        else:
            self._known[wanted] = None
        return self._known[wanted]

    def _counted(self, columns: Sequence[str], part: str, most: int) -> tuple[str, PartCells] | None:
        table = f"part_cells{len(self._known)}"
        codes = self._codes(columns)
        try:
            if codes is None:
                rows = self._by_join(table, columns, part, most)
            else:
                rows = self._by_code(table, codes, part, most)
        except (IndexError, duckdb.OutOfRangeException):  # the files say other ranges than they have
            rows = self._by_join(table, columns, part, most)
        if rows is None or int(np.diff(rows.start).max(initial=0)) > MOST_ROWS:
            self._con.execute(f"DROP TABLE IF EXISTS {table}")
            return None
        return table, rows

    def _by_code(self, table: str, codes: _Codes, part: str, most: int) -> PartCells | None:
        """By one number for a row, which tells its cell, in one pass."""
        sql = f"SELECT {quoted(part)} AS part, {codes.code} AS cell FROM release WHERE {quoted(part)}"
        last = self._con.execute(f"SELECT max({quoted(part)}) FROM release").fetchall()[0][0] or 0
        halves = f"{sql} <= {last // 2}", f"{sql} > {last // 2} OR {quoted(part)} IS NULL"  # a statement reads in turn
        found = SortedCodes([self._pieces(half, codes.size) for half in halves], self._rows, codes.size)
        counts = found.counts()
        there = np.flatnonzero(counts)
        if len(there) > most:
            return None
        cells = pa.table({"code": there, WEIGHT: counts[there], CELL: np.arange(len(there), dtype=np.int32)})
        self._con.register("given", cells)
        names = "".join(f"{column}, " for column in codes.columns)
        self._con.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT {names}{WEIGHT}, {CELL} FROM given")
        self._con.unregister("given")
        cell_of = np.zeros(codes.size, dtype=np.uint16)
        cell_of[there] = np.arange(len(there))
        return found.rows(cell_of, len(there))

    def _codes(self, columns: Sequence[str]) -> _Codes | None:
        """Of columns of whole numbers; None where one holds something else, or they are too far apart."""
        if not all(self._kinds[name] in WHOLE for name in columns):
            return None
        numbers = [f"CAST({quoted(name)} AS BIGINT)" for name in columns]
        ends = "".join(f", min({number}), max({number})" for number in numbers)
        (_, *found) = self._con.execute(f"SELECT 0{ends} FROM release").fetchall()[0]
        least = [0 if low is None else low for low in found[::2]]
        sizes = [0 if high is None else high - low + 1 for low, high in zip(least, found[1::2], strict=True)]
        if math.prod(size + 1 for size in sizes) > 1 << CODE_BITS:  # one more for a missing number
            return None
        code, shown, stride = "0", [], 1
        for name, number, low, size in zip(columns, numbers, least, sizes, strict=True):
            code += f" + {stride} * COALESCE({number} - ({low}), {size})"
            digit = f"(code // {stride}) % {size + 1}"
            value = f"CAST({digit} + ({low}) AS {self._kinds[name]})"
            shown.append(f"CASE WHEN {digit} < {size} THEN {value} END AS {quoted(name)}")
            stride *= size + 1
        return _Codes(code=f"CAST({code} AS INTEGER)", size=stride, columns=shown)

    def _by_join(self, table: str, columns: Sequence[str], part: str, most: int) -> PartCells | None:
        """By looking up the cell of every row among the counted ones."""
        names = "".join(f"{quoted(name)}, " for name in columns)
        counts = f"SELECT {names}count(*) AS {WEIGHT} FROM release GROUP BY ALL"
        number = f"CAST(row_number() OVER () - 1 AS INTEGER) AS {CELL}"
        self._con.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT *, {number} FROM ({counts})")
        cells = self._con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
        if cells > most:
            return None
        same = " AND ".join(f"r.{quoted(n)} IS NOT DISTINCT FROM c.{quoted(n)}" for n in columns) or "true"
        sql = f"SELECT r.{quoted(part)} AS part, c.{CELL} AS cell FROM release r JOIN {table} c ON {same}"
        return SortedCodes([self._pieces(sql, cells)], self._rows, cells).rows(np.arange(cells), cells)

    def _pieces(self, sql: str, size: int) -> Iterator[tuple[NDArray[np.integer], NDArray[np.integer]]]:
        """Parts and codes of the rows; IndexError for a code that is not below the size."""
        for batch in self._con.cursor().sql(sql).to_arrow_reader(BATCH):
            code = batch["cell"].to_numpy()
            if len(code) and not 0 <= int(code.min()) <= int(code.max()) < size:
                raise IndexError("a code that cannot be")
            yield narrow_part_numbers(batch["part"], self._rows), code
