"""What runs on the machines that hold the rows. Nothing here knows a method, and nothing it raises quotes a cell.

A task is a function of its partition's rows and of the job, which holds the secret: streams of randomness belong to
(secret, partition), so that a task that is tried again, or run twice at the same time, gives the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...errors import EngineError, SfumatoError
from ...stats.allocation import changed_between_passes
from ..batch_sizes import exactly
from ..contract import Keys, ListColumn, Transform
from ..parquet_lists import append_lists

BATCH_ROWS = 131_072
ROW_GROUP = 262_144
ORDER, PART = "__order__", "__part__"
WRITTEN = {"name": pa.string(), "rows": pa.int64(), "digest": pa.string()}
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


def bucket(keys: NDArray[np.uint64], parts: int) -> NDArray[np.int32]:
    """The part of every key: equal ranges of the 64-bit numbers, of which random keys fill each as likely."""
    return ((keys >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)).astype(np.int32)


def tokens(keys: Keys, parts: int) -> list[str]:
    """Names of the parts: random, and no two alike."""
    drawn = [f"{key:016x}" for key in keys(-1, parts)]
    if len(set(drawn)) < parts:
        raise EngineError("two parts got one name; start again")
    return drawn


def randomise(load: Callable[[], bytes]) -> Task:
    """The task that gives a partition's rows as they are published, changed columns as codes, with key and part."""

    def task(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        with hiding():
            job: SharedJob = pickle.loads(load())  # noqa: S301 - made by this run's own driver
            yield from _randomised(job, number, batches)

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
        columns = [c.indices.cast(pa.int32()) if pa.types.is_dictionary(c.type) else c for c in out.columns]
        order = pa.array((key ^ SIGN).view(np.int64))
        part = pa.array(bucket(key, job.parts))
        yield pa.RecordBatch.from_arrays([*columns, order, part], names=[*out.schema.names, ORDER, PART])
    if transform is not None:
        transform.close()
    elif number in job.shares:
        raise changed_between_passes()


def write_parts(
    names: Sequence[str],
    schema: pa.Schema,
    dictionaries: Mapping[str, pa.Array],
    lists: Sequence[ListColumn],
    folder: str,
    attempts: str,
) -> Task:
    """The task that writes sorted rows as the part they belong to; it gives a row (name, rows, digest) for each.

    Rows of a part lie in one task, in the order of their keys. The file is written under a name of this attempt's own,
    beside the release, and renamed: of several attempts each leaves the same bytes.
    """

    def task(batches: Batches) -> Batches:
        written: list[tuple[str, int, str]] = []
        with hiding():
            for number, rows in _by_part(batches):
                name = f"part-{names[number]}.parquet"
                attempt = Path(attempts) / f"{name}.{uuid.uuid4().hex}"
                try:
                    count, digest = _write(rows, schema, dictionaries, lists, attempt)
                    attempt.replace(Path(folder) / name)
                finally:
                    with suppress(OSError):
                        attempt.unlink(missing_ok=True)
                written.append((name, count, digest))
        if written:
            columns = zip(zip(*written, strict=True), WRITTEN.values(), strict=True)
            arrays = [pa.array(list(column), type=kind) for column, kind in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(WRITTEN))

    return task


def _by_part(batches: Batches) -> Iterator[tuple[int, Batches]]:
    """(number of the part, its batches without key and part); the batches must be used up before the next part."""
    ahead: list[pa.RecordBatch] = []

    def following(number: int) -> Batches:
        while True:
            batch = ahead.pop() if ahead else next(batches, None)
            if batch is None:
                return
            if not batch.num_rows:
                continue
            here = batch.column(PART).to_numpy()
            end = int(np.searchsorted(here, number, side="right"))
            if end:
                yield batch.slice(0, end)
            if end < batch.num_rows:
                ahead.append(batch.slice(end))
                return

    while True:
        batch = ahead.pop() if ahead else next(batches, None)
        if batch is None:
            return
        if batch.num_rows:
            ahead.append(batch)
            number = int(batch.column(PART)[0].as_py())
            yield number, following(number)


def _write(
    batches: Batches,
    schema: pa.Schema,
    dictionaries: Mapping[str, pa.Array],
    lists: Sequence[ListColumn],
    path: Path,
) -> tuple[int, str]:
    """(rows, digest) of the Parquet file that now holds the batches."""
    plain = pa.schema([pa.field(f.name, _written_type(f.type)) for f in schema])
    rows = 0

    def decoded() -> Batches:
        nonlocal rows
        for batch in exactly(batches, ROW_GROUP):
            columns = []
            for field in plain:
                column = batch.column(field.name)
                if field.name in dictionaries:
                    column = dictionaries[field.name].take(column)
                columns.append(column if column.type == field.type else column.cast(field.type))
            rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(columns, schema=plain)

    with pq.ParquetWriter(path, plain, store_schema=False) as writer:
        for batch in decoded():
            writer.write_batch(batch, row_group_size=ROW_GROUP)
    if lists:
        append_lists(path, lists, threads=1)
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return rows, digest


def _written_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def keyed(load: Callable[[], bytes]) -> Task:
    """The task that adds a random key to every row."""

    def task(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        with hiding():
            keys: Keys = pickle.loads(load())  # noqa: S301 - made by this run's own driver
            for k, batch in enumerate(exactly(batches, BATCH_ROWS)):
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
