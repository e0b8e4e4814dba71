"""Rows of a release part by part: the distinct cells of the columns that are asked for, and which of them each row is.

Where parts are of a few rows each, rows of one part hardly agree on anything, and counting them together does not make
them fewer. Their cells are few all the same: kept in two bytes for a row, they answer every question about the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb
import numpy as np

from ...model.part_cells import MOST_CELLS, MOST_ROWS, PartCells, streamed_cells
from ..codes import narrow_part_numbers
from ..statements import CELL, WEIGHT
from .connection import quoted

BATCH = 1 << 17  # rows that are read at a time
TABLES = 3  # of cells that are kept; later questions about other columns read rows
ROOM = 4  # times fewer cells in a sample of rows than there may be, for columns of questions before to be among them


class PartRows:
    """Tables of cells and how they lie in the parts, of one connection with a view `release`."""

    def __init__(self, con: duckdb.DuckDBPyConnection, rows: int, distinct: Callable[[frozenset[str]], int]) -> None:
        """`distinct` tells the distinct cells over some columns in a sample of the rows."""
        self._con, self._rows, self._distinct = con, rows, distinct
        self._known: dict[frozenset[str], tuple[str, PartCells] | None] = {}
        self._seen: frozenset[str] = frozenset()

    def of(self, columns: Sequence[str], part: str, most: int) -> tuple[str, PartCells] | None:
        """(table of the cells over at least these columns, their rows by part); None where that does not pay."""
        asked, most = frozenset(columns), min(most, MOST_CELLS)
        for known, found in self._known.items():
            if found is not None and asked <= known and found[1].cells <= most:
                return found
        if asked in self._known or len(self._known) >= TABLES:
            return None
        self._seen |= asked
        more = self._seen > asked and self._distinct(self._seen) * ROOM <= most
        wanted = self._seen if more else asked
        if more or self._distinct(asked) <= most:
            self._known[wanted] = self._counted(sorted(wanted), part, most)
        else:
            self._known[wanted] = None
        return self._known[wanted]

    def _counted(self, columns: Sequence[str], part: str, most: int) -> tuple[str, PartCells] | None:
        table = f"part_cells{len(self._known)}"
        names = "".join(f"{quoted(name)}, " for name in columns)
        counts = f"SELECT {names}count(*) AS {WEIGHT} FROM release GROUP BY ALL"
        number = f"CAST(row_number() OVER () - 1 AS INTEGER) AS {CELL}"
        self._con.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT *, {number} FROM ({counts})")
        cells = self._con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
        rows = self._rows_of(table, columns, part, cells) if cells <= most else None
        if rows is None or int(np.diff(rows.start).max(initial=0)) > MOST_ROWS:
            self._con.execute(f"DROP TABLE {table}")
            return None
        return table, rows

    def _rows_of(self, table: str, columns: Sequence[str], part: str, cells: int) -> PartCells:
        same = " AND ".join(f"r.{quoted(n)} IS NOT DISTINCT FROM c.{quoted(n)}" for n in columns) or "true"
        sql = f"SELECT r.{quoted(part)} AS part, c.{CELL} AS cell FROM release r JOIN {table} c ON {same}"
        batches = self._con.sql(sql).to_arrow_reader(BATCH)
        pieces = ((narrow_part_numbers(b["part"], self._rows), b["cell"].to_numpy()) for b in batches)
        return streamed_cells(pieces, self._rows, cells)
