"""What runs on the machines that hold the rows. Nothing here knows a method, and nothing it raises quotes a cell.

A task is a function of its partition's rows and of the job, which holds the secret: streams of randomness belong to
(secret, partition), so that a task that is tried again, or run twice at the same time, gives the same bytes.
"""

from __future__ import annotations

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

from ...errors import EngineError, SfumatoError
from ...stats.shuffling import changed_between_passes
from ..batches import exactly
from ..contract import Keys, Transform
from ..parquet_files import write_parquet
from .chunks import ORDER, by_part, packed

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
