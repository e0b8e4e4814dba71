"""The rows of a CSV file, read once: its cells are counted, and held where there is room for them.

A column of few different cells is held as numbers of its cells, and what a cell may be is asked of each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow import compute

from ...errors import DataError, EngineError
from ...model.private import Filled
from ..ahead import ahead
from ..narrow_columns import NARROW
from .connection import quoted
from .csv_cells import PATTERNS, CellForms
from .csv_types import CELL, Fits
from .session import Allowance

BATCH_ROWS = 131_072  # at most
BATCH_CELLS = 2**23  # at most, of all columns
LEAST_ROWS = 2_048
HEAD = 8_192  # first cells, which tell whether those of a column repeat
NEW = 0.5  # different cells among the first, over all of them: more do not repeat
SAMPLE = 10_000  # first rows, which notes are about


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Read:
    """What was found in a file: what its columns may be, its first rows, and all of them, as text, where held."""

    fits: Mapping[str, Fits]
    head: pa.Table
    held: pa.Table | None
    header: int | None  # row that holds the names of all columns, if one does


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _ReadPiece:
    """Some rows, and the numbers, from 1, of those that hold the names of all columns."""

    rows: int
    columns: Sequence[pa.Array]
    headers: Sequence[int]


def read_once(
    pieces: Iterator[Callable[[], pa.Table]],
    con: duckdb.DuckDBPyConnection,
    names: Sequence[str],
    forms: CellForms,
    most: float,
    allowed: Allowance,
) -> Read:
    """The file whose cells `pieces` give as text; its rows are held in `most` bytes."""
    fits = [Fits(filled=0, kinds={}) for _ in names]
    held, size = list[Sequence[pa.Array]](), 0.0
    first = next(pieces, pa.table(dict.fromkeys(names, pa.array([], pa.string()))).slice)()
    if not first.num_rows:
        raise DataError("the CSV file has a header and no rows")
    repeats = [_repeats(column) for column in first.columns]
    done, header = 0, list[int]()
    work = (partial(_looked_at, piece, names, repeats) for piece in chain([lambda: first], pieces))
    with con.cursor() as asking:  # the connection itself may be reading
        for piece in ahead(work, allowed.threads):
            if allowed.stop.is_set():
                raise EngineError("reading was stopped")
            header += [] if header else [done + row for row in piece.headers]
            done += piece.rows
            found = _fits(asking, piece.columns, fits, forms)
            fits = [known + new for known, new in zip(fits, found, strict=True)]
            size += sum(column.nbytes for column in piece.columns)
            if size <= most:
                held.append(piece.columns)
            else:
                held.clear()
    table = _table(names, held) if size <= most else None
    head = first.slice(0, SAMPLE)
    return Read(fits=dict(zip(names, fits, strict=True)), head=head, held=table, header=header[0] if header else None)


def engine_pieces(text: duckdb.DuckDBPyRelation) -> Iterator[Callable[[], pa.Table]]:
    """Functions that return the cells that the engine reads, piece by piece."""
    at_once = max(LEAST_ROWS, min(BATCH_ROWS, BATCH_CELLS // len(text.columns) // LEAST_ROWS * LEAST_ROWS))
    return (partial(pa.Table.from_batches, [batch]) for batch in text.to_arrow_reader(at_once))


def _looked_at(piece: Callable[[], pa.Table], names: Sequence[str], repeats: Sequence[bool]) -> _ReadPiece:
    """A piece, its columns of few different cells as numbers of these."""
    rows = piece()
    columns = [_numbered(c) if few else c.combine_chunks() for c, few in zip(rows.columns, repeats, strict=True)]
    headers = _equal_rows(rows, names) if len(names) > 1 else []
    return _ReadPiece(rows=rows.num_rows, columns=columns, headers=headers)


def _equal_rows(table: pa.Table, cells: Sequence[str]) -> list[int]:
    """The numbers, from 1, of rows that hold these cells."""
    found = np.arange(table.num_rows)
    for column, cell in zip(table.columns, cells, strict=True):
        some = column if len(found) == len(column) else column.take(pa.array(found))
        found = found[compute.equal(some, cell).fill_null(False).to_numpy()]
        if not len(found):
            break
    return [int(row) + 1 for row in found]


def _repeats(column: pa.ChunkedArray) -> bool:
    head = column.slice(0, HEAD)
    return len(compute.unique(head)) <= max(NEW * len(head), 1)


def _numbered(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """The column as numbers of its different cells, in as few bytes as they need."""
    found = column.dictionary_encode()
    cells = found.chunk(0).dictionary  # of all parts
    fit = next((n for n in NARROW if len(cells) <= 1 << (n.bit_width - 1)), NARROW[-1])
    numbers = [part.indices.cast(fit, safe=False) for part in found.chunks]
    return pa.DictionaryArray.from_arrays(numbers[0] if len(numbers) == 1 else pa.concat_arrays(numbers), cells)


def _fits(
    asking: duckdb.DuckDBPyConnection, columns: Sequence[pa.Array], known: Sequence[Fits], forms: CellForms
) -> list[Fits]:
    """What the cells of a batch are: of the kinds that a column may still be."""
    asked: dict[tuple[int, ...], list[str]] = {}  # columns -> kinds
    for kind in PATTERNS:
        open_to = tuple(j for j, fits in enumerate(known) if fits.may_be(kind))
        if open_to:
            asked.setdefault(open_to, []).append(kind)
    found: list[dict[str, int]] = [{} for _ in columns]
    for numbers, kinds in asked.items():
        cells = [_different(columns[j]) for j in numbers]
        table = {
            "number": np.repeat(np.asarray(numbers, dtype=np.int32), [len(c) for c, _ in cells]),
            CELL: pa.concat_arrays([c for c, _ in cells]),
            "rows": np.concatenate([n for _, n in cells]),
        }
        tests = [f"sum(CASE WHEN ({forms.value(CELL, kind)}) IS NULL THEN 0 ELSE rows END)" for kind in kinds]
        told = asking.from_arrow(pa.table(table)).aggregate(f"number, {', '.join(tests)}", "number").fetchall()
        for number, *fit in told:
            found[number] |= {kind: int(n) for kind, n in zip(kinds, fit, strict=True)}
    filled = (len(column) - column.null_count for column in columns)
    return [Fits(filled=n, kinds=kinds) for n, kinds in zip(filled, found, strict=True)]


def _different(column: pa.Array) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """(cells, in how many rows each stands); those of a column that does not repeat as they come."""
    if not pa.types.is_dictionary(column.type):
        return column, np.ones(len(column), dtype=np.int64)
    numbers = column.indices.drop_null() if column.null_count else column.indices
    return column.dictionary, np.bincount(numbers.to_numpy(), minlength=len(column.dictionary))


def _table(names: Sequence[str], held: Sequence[Sequence[pa.Array]]) -> pa.Table:
    """The batches as one table, the numbers of each column as wide as the widest of them."""
    found = {}
    for name, parts in zip(names, zip(*held, strict=True), strict=True):
        kind = max((part.type for part in parts), key=_width)
        found[name] = pa.chunked_array([part.cast(kind) for part in parts], type=kind)
    return pa.table(found)


def _width(kind: pa.DataType) -> int:
    return int(kind.index_type.bit_width) if pa.types.is_dictionary(kind) else 0


def in_types(con: duckdb.DuckDBPyConnection, text: pa.Table, values: Mapping[str, str]) -> pa.Table:
    """The table of texts, columns as `values` says: SQL of CELL. Each different cell is looked at once."""
    alike: dict[str, list[str]] = {}
    for name, value in values.items():
        alike.setdefault(value, []).append(name)
    found = {name: text[name] for name in text.column_names}
    for value, names in alike.items():
        parts = [(name, part) for name in names for part in text[name].chunks]
        cells = pa.chunked_array([_cells(part) for _, part in parts])
        typed = con.from_arrow(pa.table({CELL: cells})).project(f"{value} AS {quoted(CELL)}").to_arrow_table()[CELL]
        done, new = 0, {name: list[pa.Array]() for name in names}
        for name, part in parts:
            size = len(_cells(part))
            some = typed.slice(done, size)
            done += size
            if pa.types.is_dictionary(part.type):
                new[name].append(pa.DictionaryArray.from_arrays(part.indices, some.combine_chunks()))
            else:
                new[name] += some.chunks
        found |= {name: pa.chunked_array(chunks) for name, chunks in new.items()}
    return pa.table(found)


def _cells(part: pa.Array) -> pa.Array:
    return part.dictionary if pa.types.is_dictionary(part.type) else part


def plain_batches(held: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows, batch by batch, without numbers in the place of values."""
    for batch in held.to_batches(BATCH_ROWS):
        columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def counted(column: pa.ChunkedArray) -> Filled:
    """How many cells of a held column are filled, and how many are different; numbered ones are not looked at again."""
    cells = pa.chunked_array([_cells(part) for part in column.chunks])
    distinct = compute.count_distinct(cells, mode="only_valid").as_py()
    return Filled(rows=len(column) - column.null_count, distinct=int(distinct))
