"""What runs on the machines that hold the rows. Nothing here knows a method, and nothing it raises quotes a cell.

A task is a function of its partition's rows and of the job, which holds the secret: streams of randomness belong to
(secret, partition), so that a task that is tried again, or run twice at the same time, gives the same bytes.
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...errors import EngineError, SfumatoError
from ...stats.shuffling import changed_between_passes
from ..batches import exactly, write_parquet
from ..contract import Keys, Transform

BATCH_ROWS = 131_072
WRITTEN = {"name": pa.string(), "rows": pa.int64()}
SIGN = np.uint64(1 << 63)
Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SharedJob:
    """What the tasks of one run share. It holds the secret, and is sent to them pickled, by a door of its own."""

    transform: Transform  # as `away` gives it
    shares: Mapping[int, Any]  # number of the partition -> what it is dealt
    keys: Keys
    parts: int
    batch_rows: int
    schema: pa.Schema  # of the rows on their way


def on_the_way(schema: pa.Schema) -> pa.Schema:
    """What travels of the published columns: codes instead of the values of a dictionary, and the key."""
    kinds = [(f.name, f.type.index_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    return pa.schema([*kinds, (ORDER, pa.uint64())])


def tokens(keys: Keys, parts: int) -> list[str]:
    """Names of the parts: random, and no two alike."""
    drawn = [f"{key:016x}" for key in keys(-1, parts)]
    if len(set(drawn)) < parts:
        raise EngineError("two parts got one name; start again")
    return drawn


def randomise(load: Callable[[], bytes], names: Sequence[str]) -> Task:
    """The task that gives a partition's rows as they are published, changed columns as codes, with keys, in chunks."""

    def task(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        with hiding():
            job: SharedJob = pickle.loads(load())  # noqa: S301 - made by this run's own driver
            yield from packed(_randomised(job, number, _named(batches, names)), number, job.parts)

    return task


def _randomised(job: SharedJob, number: int, batches: Batches) -> Batches:
    transform: Transform | None = None
    for k, batch in enumerate(exactly(batches, job.batch_rows)):
        if transform is None:
            if number not in job.shares:
                raise changed_between_passes()
            transform = job.transform.partition(number, job.shares[number])
        out = transform.split(k, batch)()
        key = job.keys((number + 1) << 32 | k, out.num_rows)
        columns = [column.indices if pa.types.is_dictionary(column.type) else column for column in out.columns]
        yield pa.RecordBatch.from_arrays([*columns, pa.array(key)], schema=job.schema)
    if transform is not None:
        transform.close()
    elif number in job.shares:
        raise changed_between_passes()


def write_parts(
    names: Sequence[str], schema: pa.Schema, dictionaries: Mapping[str, pa.Array], folder: str, attempts: str
) -> Task:
    """The task that writes chunks as the part they belong to; it gives a row (name, rows) for each.

    Chunks of a part lie in one task, in the order of their ranges. The file is written under a name of this attempt's
    own, beside the release, and renamed: of several attempts each leaves the same bytes.
    """

    def task(batches: Batches) -> Batches:
        written: list[tuple[str, int]] = []
        with hiding():
            for number, rows in by_part(batches, on_the_way(schema)):
                name = f"part-{names[number]}.parquet"
                attempt = Path(attempts) / f"{name}.{uuid.uuid4().hex}"
                try:
                    write_parquet(attempt, schema, (batch.select(schema.names) for batch in rows), dictionaries)
                    with attempt.open("rb") as handle:
                        os.fsync(handle.fileno())
                    count = pq.read_metadata(attempt).num_rows
                    attempt.replace(Path(folder) / name)
                finally:
                    with suppress(OSError):
                        attempt.unlink(missing_ok=True)
                written.append((name, count))
        if written:
            columns = zip(zip(*written, strict=True), WRITTEN.values(), strict=True)
            arrays = [pa.array(list(column), type=kind) for column, kind in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(WRITTEN))

    return task


def _named(batches: Batches, names: Sequence[str]) -> Batches:
    """The batches with their own names: on the way here columns have names that Spark cannot misread."""
    return (batch.rename_columns(list(names)) for batch in batches)


def keyed(load: Callable[[], bytes], names: Sequence[str]) -> Task:
    """The task that adds a random key to every row."""

    def task(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        with hiding():
            keys: Keys = pickle.loads(load())  # noqa: S301 - made by this run's own driver
            for k, batch in enumerate(exactly(_named(batches, names), BATCH_ROWS)):
                key = (keys((number + 1) << 32 | k, batch.num_rows) ^ SIGN).view(np.int64)
                yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(key)], names=[*batch.schema.names, ORDER])

    return task


class hiding:  # noqa: N801 - used like a function
    """A block whose errors quote nothing: ours pass, those of libraries become one line."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, SfumatoError):
            if isinstance(error, OSError):
                raise EngineError("a task could not write its part; every machine must see the folder") from None
            raise EngineError(f"a task failed ({type(error).__name__})") from None


# Rows on their way through the shuffle: thousands of them packed into one value, which Spark moves and never opens.
#
# Spark carries rows one by one, and would turn each from a column of Python's into a row of Java's and back: most of
# the time of a publication. A chunk holds the rows of one task that lie in one range of the keys; Spark sees its part,
# its range, its number and some bytes. Ranges are narrow, so that whoever writes a part holds a few hundred thousand
# rows.


ORDER, PART, RANGE, NUMBER, ROWS = "__order__", "__part__", "__range__", "__number__", "__rows__"
CHUNK = {PART: pa.int32(), RANGE: pa.int32(), NUMBER: pa.int64(), ROWS: pa.binary()}
WINDOW_ROWS, WINDOW_BYTES = 1 << 20, 1 << 26  # of which a task makes chunks at a time; whichever comes first
MOST_RANGES, MOST_A_PART = 1024, 16  # a window's chunks hold a thousand rows where there are 1,024 ranges
WINDOW_BITS = 24  # of a chunk's number: windows of one partition


def ranges_a_part(parts: int) -> int:
    """Ranges of the keys of each part: as many as chunks stay long enough for."""
    return min(max(MOST_RANGES // parts, 1), MOST_A_PART)


def bucket(keys: NDArray[np.uint64], ranges: int) -> NDArray[np.int32]:
    """The range of every key: equal ranges of the 64-bit numbers, of which random keys fill each as likely."""
    return ((keys >> np.uint64(32)) * np.uint64(ranges) >> np.uint64(32)).astype(np.int32)


def packed(batches: Iterable[pa.RecordBatch], partition: int, parts: int) -> Batches:
    """The rows of a partition, which have a key ORDER, as chunks."""
    held: list[pa.RecordBatch] = []
    window = 0
    for batch in batches:
        held += [batch] if batch.num_rows else []  # a method may leave all rows of a batch out
        rows, size = sum(b.num_rows for b in held), sum(b.nbytes for b in held)
        if rows >= WINDOW_ROWS or size >= WINDOW_BYTES:
            yield _chunks(held, partition << WINDOW_BITS | window, parts)
            held, window = [], window + 1
    if held:
        yield _chunks(held, partition << WINDOW_BITS | window, parts)


def _chunks(batches: list[pa.RecordBatch], number: int, parts: int) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    each = ranges_a_part(parts)
    found = bucket(table[ORDER].to_numpy(), parts * each)
    rows = table.take(np.argsort(found, kind="stable")).combine_chunks()
    here, counts = np.unique(found, return_counts=True)
    starts = np.cumsum(counts) - counts
    (batch,) = rows.to_batches()
    cells = [batch.slice(int(start), int(n)).serialize().to_pybytes() for start, n in zip(starts, counts, strict=True)]
    columns = [here // each, here, np.full(len(here), number), cells]
    arrays = [pa.array(column, type=kind) for column, kind in zip(columns, CHUNK.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(CHUNK))


def by_part(chunks: Batches, schema: pa.Schema) -> Iterator[tuple[int, Batches]]:
    """(number of the part, its rows in the order of their keys); they must be used up before the next part.

    Chunks come in the order of range and number, so that rows with equal keys do not depend on who was faster.
    """
    for part, mine in groupby(_listed(chunks), key=lambda chunk: chunk[0]):
        yield part, (_in_order([c[2] for c in same], schema) for _, same in groupby(mine, key=lambda c: c[1]))


def _listed(chunks: Batches) -> Iterator[tuple[int, int, bytes]]:
    for batch in chunks:
        columns = (batch.column(name) for name in (PART, RANGE, ROWS))
        # as bytes of Python, one by one: their memory is aligned as Arrow wants it, and goes when they are used
        yield from ((part.as_py(), place.as_py(), rows.as_py()) for part, place, rows in zip(*columns, strict=True))


def _in_order(chunks: list[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of all chunks of a range, sorted by key."""
    table = pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(chunk), schema) for chunk in chunks])
    order = np.argsort(table[ORDER].to_numpy(), kind="stable")
    (batch,) = table.take(order).combine_chunks().to_batches()
    return batch
