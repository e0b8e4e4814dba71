"""Sorted rows and their list columns into Parquet.

A release shows few different lists, so rows carry the number of their list through the sort and the lists are put
together when the file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .contract import ListColumn

ROW_GROUP = 131_072
WRITE_BATCH = 65_536  # cells that are encoded at a time; the library's 1,024 cost lists half as much again
Repeater = Callable[[pa.Array], pa.ListArray]


def write_with_lists(
    rows: pa.RecordBatchReader | Iterable[pa.RecordBatch], path: Path, lists: Sequence[ListColumn]
) -> None:
    """One Parquet file of the rows in their order, every list column in front of its numbers."""
    shown = repeaters(lists)
    plain = {column.name for column in lists}
    writer: pq.ParquetWriter | None = None
    try:
        # one thread encodes what the sort has handed over while the sort goes on
        with ThreadPoolExecutor(max_workers=1) as encoding:
            waiting: Future[None] | None = None
            for batch in rows:
                made = with_lists(batch, shown)
                if writer is None:
                    cells = [f"{name}.list.element" for name in plain]  # few lists, repeated: they pack well
                    counted = [name for name in made.schema.names if name not in plain]
                    writer = pq.ParquetWriter(
                        path,
                        made.schema,
                        store_schema=False,
                        write_statistics=counted,
                        write_batch_size=WRITE_BATCH,
                        compression=dict.fromkeys(counted, "snappy") | dict.fromkeys(cells, "zstd"),
                        compression_level=dict.fromkeys(cells, 1),
                    )
                if waiting is not None:
                    waiting.result()
                waiting = encoding.submit(writer.write_batch, made, row_group_size=ROW_GROUP)
            if waiting is not None:
                waiting.result()
    finally:
        if writer is not None:
            writer.close()


def repeaters(lists: Sequence[ListColumn]) -> Sequence[tuple[ListColumn, Repeater]]:
    """Every list column with the function that shows a batch's numbers as lists."""
    return [(column, _repeater(column.lists)) for column in lists]


def with_lists(batch: pa.RecordBatch, shown: Sequence[tuple[ListColumn, Repeater]]) -> pa.RecordBatch:
    """The batch with every list column in front of its numbers."""
    columns: dict[str, pa.Array] = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        columns |= {column.name: repeated(array) for column, repeated in shown if column.numbers == name}
        columns[name] = array
    return pa.RecordBatch.from_pydict(columns)


def _repeater(lists: pa.ListArray) -> Repeater:
    """Numbers -> their lists, values by dictionary: a list of k sets is looked at once, not once for each row."""
    values = lists.values
    distinct = pc.unique(pc.drop_null(values))
    codes = pc.fill_null(pc.index_in(values, value_set=distinct), -1).to_numpy(zero_copy_only=False)
    missing = bool(values.null_count)  # Parquet's dictionaries hold none
    start = lists.offsets.to_numpy().astype(np.int64)
    width = np.diff(start)
    square = codes.reshape(len(lists), -1) if len(lists) and (width == width[0]).all() else None

    def repeated(numbers: pa.Array) -> pa.ListArray:
        z = numbers.to_numpy(zero_copy_only=False)
        offsets = np.zeros(len(z) + 1, dtype=np.int32)
        if square is not None:
            np.cumsum(np.full(len(z), square.shape[1]), out=offsets[1:])
            flat = np.take(square, z, axis=0).ravel()
        else:
            np.cumsum(width[z], out=offsets[1:])
            flat = codes[np.arange(offsets[-1]) + np.repeat(start[z] - offsets[:-1], width[z])]
        shown = pa.DictionaryArray.from_arrays(pa.array(flat, mask=flat < 0 if missing else None), distinct)
        return pa.ListArray.from_arrays(pa.array(offsets), shown)

    return repeated
