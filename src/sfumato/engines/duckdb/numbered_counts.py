"""How often combinations of cells occur in columns that are held as numbers of their different cells."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...stats.joint_codes import distinct_rows
from ..codes import factorise

MOST = 1 << 16  # combinations of different cells that are counted in an array


def numbered_counts(held: pa.Table, rows: str) -> pa.Table | None:
    """The different rows of the table, with a column `rows` that says how often each is there.

    None where a column is not held as numbers, or there may be too many combinations.
    """
    counted = [_counted(batch, rows) for batch in held.to_batches()]
    parts = [part for part in counted if part is not None]
    if not parts or len(parts) < len(counted):
        return None
    found = pa.concat_tables(parts)  # cells that are written in two ways, or stand in several batches, are there again
    coded = [factorise(found[name]) for name in held.column_names]
    codes, place = distinct_rows([code for code, _ in coded], found.num_rows)
    counts = np.zeros(len(codes), dtype=np.int64)
    np.add.at(counts, place, found[rows].to_numpy())
    columns = {
        name: values.take(pa.array(codes[:, j]))
        for j, (name, (_, values)) in enumerate(zip(held.column_names, coded, strict=True))
    }
    return pa.table({**columns, rows: pa.array(counts)})


def _counted(batch: pa.RecordBatch, rows: str) -> pa.Table | None:
    """The same of a batch, whose cells have the same numbers in all rows; rows may be alike."""
    key, size = np.zeros(batch.num_rows, dtype=np.intp), 1
    for column in batch.columns:
        if not pa.types.is_dictionary(column.type):
            return None
        many = len(column.dictionary)
        size *= many + 1  # and one for a missing cell
        if size > MOST:
            return None
        key *= many + 1
        key += _numbers(column, many)
    counts = np.bincount(key, minlength=size)
    there = np.flatnonzero(counts)
    left, cells = there, dict[str, pa.Array]()
    for name, column in zip(reversed(batch.schema.names), reversed(batch.columns), strict=True):
        many = len(column.dictionary)
        own = left % (many + 1)
        cells[name] = column.dictionary.take(pa.array(own, mask=own == many))
        left = left // (many + 1)
    return pa.table({**{name: cells[name] for name in batch.schema.names}, rows: pa.array(counts[there])})


def _numbers(column: pa.DictionaryArray, missing: int) -> NDArray[np.integer]:
    """The number of every cell."""
    found = column.indices.fill_null(missing) if column.null_count else column.indices
    return np.asarray(found.to_numpy())
