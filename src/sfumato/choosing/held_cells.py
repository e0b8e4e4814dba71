"""Rows in memory, counted without an engine: every column as numbers of its values, cells by array. Private.

Questions about the same columns are asked of dozens of releases. Columns that a method leaves alone are the same in all
of them: the number of each row's cell over such columns is found once, and what a release shows beside them is counted
in one pass. The engine then sees a few thousand cells instead of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..engines.codes import factorise
from ..engines.contract import Reader
from ..engines.directory import reader_of
from ..engines.statements import COUNT, WEIGHT, column, columns_of, over_rows
from ..lazily import compute as pc
from ..lazily import exp
from ..model.public import Floats
from ..model.types import ColumnType
from ..stats.joint_codes import distinct_numbers, distinct_rows, joint_ranks

CELL = "__cell__"
MOST_CELLS = (1 << 16) - 1  # that an array may have, whatever the rows
MOST_SHARE = 0.25  # of the rows: cells of untouched columns for which numbers are found
MOST_PLACES = 4  # of an array for each row: beyond that the engine counts
MOST_TALLIED = 1 << 20  # cells of which the engine is told all, whether they have rows or not
TALLIED_FROM = 2  # the time that a statement is asked
NUMBERS = 2**27  # bytes of numbers of cells that are kept
CELLS = "held_cells"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Numbered:
    """The number of every row among the cells of some columns, and what these cells hold."""

    number: NDArray[np.integer]
    values: Mapping[str, pa.Array]
    size: int


class TrialRows:
    """The rows of a table as batches; cells over its columns are numbered once and kept, while there is room."""

    def __init__(self, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> None:
        self.batches = tuple(batches)
        self.rows = pa.Table.from_batches(self.batches, schema=schema)
        self._left = NUMBERS
        self._statements: dict[int, AskedStatement] = {}
        self._known: dict[tuple[str, ...], Numbered | None] = {}

    def numbered(self, columns: tuple[str, ...]) -> Numbered | None:
        """Cells of some columns, at least one; None where there are too many of them."""
        if columns not in self._known:
            found = self._numbers_of(columns)
            if found is not None:
                self._left -= found.number.nbytes
                if self._left < 0:
                    return found
            self._known[columns] = found
        return self._known[columns]

    def known(self, statement: exp.Query) -> AskedStatement:
        """What is known of a statement, which is kept; the same one is asked of many releases."""
        if id(statement) not in self._statements:
            self._statements[id(statement)] = AskedStatement(statement)
        return self._statements[id(statement)]

    def _numbers_of(self, columns: tuple[str, ...]) -> Numbered | None:
        rows = self.rows.num_rows
        if len(columns) == 1:
            return _values_of(self.rows[columns[0]], columns[0], MOST_SHARE * rows)
        each = [self.numbered((name,)) for name in columns]
        own = [one for one in each if one is not None]
        if len(own) < len(each):
            return None
        joint, _ = joint_ranks([one.number for one in own], rows)
        kept, cell = distinct_numbers(joint)
        if len(kept) > MOST_SHARE * rows:
            return None
        first = np.empty(len(kept), dtype=np.intp)
        first[cell] = np.arange(rows)
        values = {
            name: one.values[name].take(pa.array(one.number[first])) for name, one in zip(columns, own, strict=True)
        }
        return Numbered(number=_narrow(cell, len(kept)), values=values, size=len(kept))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Counted:
    """Rows of every cell that can be over some columns: all combinations of what is numbered."""

    columns: tuple[str, ...]
    parts: tuple[Numbered, ...]
    counts: NDArray[np.int64]

    @property
    def there(self) -> pa.Table:
        """The cells that have rows, and how many, as WEIGHT."""
        at = np.flatnonzero(self.counts)
        return self.at(at).append_column(WEIGHT, pa.array(self.counts[at]))

    def at(self, cells: NDArray[np.intp]) -> pa.Table:
        """What some of the cells hold."""
        values: dict[str, pa.Array] = {}
        if self.parts:
            for part, code in zip(self.parts, np.unravel_index(cells, [p.size for p in self.parts]), strict=True):
                values |= {name: column.take(pa.array(code)) for name, column in part.values.items()}
        return pa.table({name: values[name] for name in self.columns})

    def same_cells(self, other: Counted) -> bool:
        """Whether the numbers of cells stand for the same ones."""
        return self.columns == other.columns and all(
            mine is its or (mine.size == its.size and mine.values == its.values)
            for mine, its in zip(self.parts, other.parts, strict=True)
        )


class AskedStatement:
    """A statement, and what the engine makes of every cell in it: found out once for all releases."""

    def __init__(self, statement: exp.Query) -> None:
        self.statement = statement
        self.tables = frozenset(table.name for table in statement.find_all(exp.Table))
        self.columns = tuple(name for name in columns_of(statement) if name != WEIGHT)
        self._adds_up = _sums_of(statement)
        self._asked = 0
        self._tally: tuple[Counted, Tally] | None = None

    def tally(self, cells: Counted) -> Tally | None:
        """How to answer the statement from counts of these cells; None where it does more than add up groups, or is
        asked for the first time: most are asked once."""
        self._asked += 1
        if (
            self._asked < TALLIED_FROM
            or not self._adds_up
            or len(cells.counts) > MOST_TALLIED
            or self.tables != {CELLS}
        ):
            return None
        if self._tally is None or not self._tally[0].same_cells(cells):
            self._tally = (
                replace(cells, counts=np.zeros(0, dtype=np.int64)),
                _tally(self.statement, self._adds_up, cells),
            )
        return self._tally[1]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Tally:
    """The answer of SELECT keys, sums .. GROUP BY keys: sums over the cells of each group, by the rows of a cell."""

    cell: NDArray[np.intp]  # cells that meet the conditions
    group: NDArray[np.intp]  # of each of them
    groups: pa.Table  # their keys
    sums: Mapping[str, tuple[pa.DataType, Floats]]  # what one row of each cell adds

    def of(self, counts: NDArray[np.int64]) -> pa.Table:
        """The answer for so many rows of every cell; groups without rows are not in it."""
        rows, size = counts[self.cell], self.groups.num_rows
        there = np.flatnonzero(np.bincount(self.group, weights=rows, minlength=size))
        found = self.groups.take(pa.array(there))
        for name, (kind, each) in self.sums.items():
            total = np.bincount(self.group, weights=rows * each, minlength=size)[there]
            found = found.append_column(name, pa.array(total).cast(kind))
        return found


def _sums_of(statement: exp.Query) -> tuple[str, ...]:
    """The columns of a statement that are sums over rows, beside the keys of its groups; none where it does more."""
    plain = {"expressions", "from_", "from", "where", "group"}
    if not isinstance(statement, exp.Select) or any(v for k, v in statement.args.items() if k not in plain):
        return ()
    sums = [e for e in statement.selects if isinstance(e.unalias(), exp.Cast) and isinstance(e.unalias().this, exp.Sum)]
    keys, by = [e for e in statement.selects if e not in sums], statement.args.get("group")
    grouped = by is not None and len(by.expressions) == len(keys)
    return tuple(e.alias_or_name for e in sums) if grouped and keys else ()


def _tally(statement: exp.Query, sums: Sequence[str], cells: Counted) -> Tally:
    """The statement asked of one row of every cell, cell by cell."""
    each = statement.copy()
    assert isinstance(each, exp.Select)
    each.select(column(CELL), append=True, copy=False)
    each.group_by(exp.Literal.number(len(each.selects)), append=True, copy=False)
    every = np.arange(len(cells.counts))
    given = cells.at(every).append_column(WEIGHT, pa.array(np.ones(len(every), dtype=np.int64)))
    with ENGINES.one() as engine:
        found = engine.run(each, tables={CELLS: given.append_column(CELL, pa.array(every))})
    keys = [name for name in found.column_names if name not in {*sums, CELL}]
    rows, group = distinct_rows([factorise(found[name])[0] for name in keys], found.num_rows)
    first = np.zeros(len(rows), dtype=np.intp)
    first[group] = np.arange(len(group))
    return Tally(
        cell=found[CELL].to_numpy(),
        group=group,
        groups=found.select(keys).take(pa.array(first)),
        sums={name: (found.schema.field(name).type, found[name].to_numpy().astype(float)) for name in sums},
    )


class HeldReader:
    """A reader of rows in memory that shows the engine cells; what cannot be counted so is left to `other`."""

    def __init__(
        self, rows: pa.Table, untouched: frozenset[str], original: TrialRows, other: Callable[[], Reader]
    ) -> None:
        """`untouched` columns have the same rows, in the same order, as those of `original`."""
        self.columns = tuple(rows.column_names)
        self._rows, self._untouched, self._original, self._other = rows, untouched, original, other
        self._left_to: Reader | None = None
        self._own: dict[str, Numbered | None] = {}
        self._last: tuple[tuple[str, ...], Counted | None] | None = None

    def source(self) -> tuple[str, str | None]:
        return CELLS, WEIGHT

    def arrow_types(self, types: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
        with ENGINES.one() as engine:
            return engine.arrow_types(types)

    def run(
        self, statement: exp.Query, *, text: str | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        known = self._original.known(statement)
        given = dict(tables or {})
        if CELLS in known.tables:
            cells = self._counts_of(known.columns)
            if cells is None:
                return self._rest.run(over_rows(statement, CELLS, WEIGHT), text=text, tables=tables)
            tally = known.tally(cells)
            if tally is not None:
                return tally.of(cells.counts)
            given[CELLS] = cells.there
        if not known.tables <= given.keys():
            return self._rest.run(statement, text=text, tables=tables)
        with ENGINES.one() as engine:
            return engine.run(statement, text=text, tables=given)

    def count(self, columns: Sequence[str]) -> pa.Table:
        cells = self._counts_of(tuple(columns))
        if cells is None or not all(self._distinct(name) for name in columns):
            return self._rest.count(columns)
        return cells.there.rename_columns([*columns, COUNT])

    def _counts_of(self, columns: tuple[str, ...]) -> Counted | None:
        """Rows of every cell over some columns; None where an array would not pay."""
        if self._last is None or self._last[0] != columns:  # questions about the same columns follow each other
            self._last = columns, self._counted(columns)
        return self._last[1]

    def _counted(self, columns: tuple[str, ...]) -> Counted | None:
        if not set(columns) <= set(self.columns):
            return None
        rows, same = self._rows.num_rows, tuple(name for name in columns if name in self._untouched)
        parts = [self._original.numbered(same)] if same else []
        parts += [self._shown(name) for name in columns if name not in self._untouched]
        known = tuple(part for part in parts if part is not None)
        places = int(np.prod([part.size for part in known], dtype=float))
        if len(known) < len(parts) or places > MOST_PLACES * max(rows, MOST_CELLS):
            return None
        wide = np.dtype(np.int32 if places < 1 << 31 else np.int64)  # narrow: memory that is touched first takes time
        place: NDArray[Any] = known[0].number.astype(wide) if known else np.zeros(rows, dtype=wide)
        for part in known[1:]:
            place *= wide.type(part.size)
            place += part.number.astype(wide, copy=False)
        return Counted(columns=columns, parts=known, counts=np.bincount(place, minlength=places))

    def _shown(self, name: str) -> Numbered | None:
        """What the release shows in a column that is its own."""
        if name not in self._own:
            self._own[name] = _values_of(self._rows[name], name, MOST_PLACES * self._rows.num_rows)
        return self._own[name]

    def _distinct(self, name: str) -> bool:
        """Whether a column's numbers stand for different values: those of a compound value may repeat."""
        found = None if name in self._untouched else self._shown(name)
        return found is None or len(found.values[name].unique()) == found.size

    @property
    def _rest(self) -> Reader:
        if self._left_to is None:
            self._left_to = self._other()
        return self._left_to


class _Engines:
    """Connections without rows of their own, each used by one thread at a time."""

    def __init__(self) -> None:
        self._free: list[Reader] = []

    @contextmanager
    def one(self) -> Iterator[Reader]:
        """One of them; a new one where all are in use."""
        try:
            engine = self._free.pop()
        except IndexError:
            engine = reader_of(pa.table({"nothing": pa.nulls(0, pa.int8())}))
        yield engine
        self._free.append(engine)


ENGINES = _Engines()


def _values_of(column: pa.ChunkedArray, name: str, most: float) -> Numbered | None:
    """The numbers of a column's values; None where there are more than `most`."""
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column, null_encoding="encode")
    chunks = column.chunks
    values = chunks[0].dictionary if chunks else pa.array([], column.type.value_type)
    if len(values) > most or any(chunk.indices.null_count for chunk in chunks):
        return None
    if any(not chunk.dictionary.equals(values) for chunk in chunks):
        return None
    number = np.concatenate([chunk.indices.to_numpy() for chunk in chunks] or [np.zeros(0, dtype=np.int8)])
    return Numbered(number=_narrow(number, len(values)), values={name: values}, size=len(values))


def _narrow(number: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    return number.astype(np.min_scalar_type(max(size - 1, 0)))
