"""What runs on the machines that hold the rows. Nothing here knows a method, and nothing it raises quotes a cell.

A task is a function of its partition's rows and of the job, which holds the secret: streams of randomness belong to
(secret, partition), so that a task that is tried again, or run twice at the same time, gives the same bytes.
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
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
ORDER, PART = "__order__", "__part__"  # of a row: its key, and the part that it goes to
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
    """What travels of the published columns: codes instead of the values of a dictionary, the part and the key.

    Columns have numbers for names, which Spark cannot misread.
    """
    kinds = [f.type.index_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    return pa.schema([*((f"c{j}", kind) for j, kind in enumerate(kinds)), (PART, pa.int32()), (ORDER, pa.int64())])


def bucket(keys: NDArray[np.uint64], parts: int) -> NDArray[np.int32]:
    """The part of every key: equal ranges of the 64-bit numbers, of which random keys fill each as likely."""
    return ((keys >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)).astype(np.int32)


def signed(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The keys as numbers that Spark knows, in the same order."""
    return (keys ^ SIGN).view(np.int64)


def tokens(keys: Keys, parts: int) -> list[str]:
    """Names of the parts: random, and no two alike."""
    drawn = [f"{key:016x}" for key in keys(-1, parts)]
    if len(set(drawn)) < parts:
        raise EngineError("two parts got one name; start again")
    return drawn


def _partition() -> int:
    """The number of the partition that this task works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def randomise(load: Callable[[], bytes], names: Sequence[str]) -> Task:
    """The task that gives a partition's rows as they are published, changed columns as codes, with parts and keys."""

    def task(batches: Batches) -> Batches:
        with hiding():
            job: SharedJob = pickle.loads(load())  # noqa: S301 - made by this run's own driver
            yield from _randomised(job, _partition(), _named(batches, names))

    return task


def _randomised(job: SharedJob, number: int, batches: Batches) -> Batches:
    transform: Transform | None = None
    for k, batch in enumerate(exactly(batches, job.batch_rows)):
        if transform is None:
            if number not in job.shares:
                raise changed_between_passes()
            transform = job.transform.partition(number, job.shares[number])
        out = transform.apply(k, batch)
        keys = job.keys((number + 1) << 32 | k, out.num_rows)
        columns = [column.indices if pa.types.is_dictionary(column.type) else column for column in out.columns]
        places = [pa.array(bucket(keys, job.parts)), pa.array(signed(keys))]
        yield pa.RecordBatch.from_arrays([*columns, *places], schema=job.schema)
    if transform is not None:
        transform.close()
    elif number in job.shares:
        raise changed_between_passes()


def write_part(
    names: Sequence[str], schema: pa.Schema, dictionaries: Mapping[str, pa.Array], folder: str, attempts: str
) -> Task:
    """The task that writes the rows of a part, which come in the order of their keys; it gives a row (name, rows).

    The file is written under a name of this attempt's own, beside the release, and renamed: of several attempts each
    leaves the same bytes.
    """

    def task(batches: Batches) -> Batches:
        with hiding():
            first = next(batches, None)
            if first is None:
                return
            name = f"part-{names[first.column(PART)[0].as_py()]}.parquet"
            attempt = Path(attempts) / f"{name}.{uuid.uuid4().hex}"
            try:
                rows = (batch.select(range(len(schema))) for batch in chain([first], batches))
                write_parquet(attempt, schema, _named(rows, schema.names), dictionaries)
                with attempt.open("rb") as handle:
                    os.fsync(handle.fileno())
                written = pq.read_metadata(attempt).num_rows
                attempt.replace(Path(folder) / name)
            finally:
                with suppress(OSError):
                    attempt.unlink(missing_ok=True)
            yield pa.RecordBatch.from_pylist([{"name": name, "rows": written}], schema=pa.schema(WRITTEN))

    return task


def _named(batches: Batches, names: Sequence[str]) -> Batches:
    """The batches with their own names: on the way here columns have names that Spark cannot misread."""
    return (batch.rename_columns(list(names)) for batch in batches)


def keyed(load: Callable[[], bytes], names: Sequence[str]) -> Task:
    """The task that adds a random key to every row."""

    def task(batches: Batches) -> Batches:
        with hiding():
            keys: Keys = pickle.loads(load())  # noqa: S301 - made by this run's own driver
            number = _partition()
            for k, batch in enumerate(exactly(_named(batches, names), BATCH_ROWS)):
                key = signed(keys((number + 1) << 32 | k, batch.num_rows))
                yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(key)], names=[*batch.schema.names, ORDER])

    return task


@contextmanager
def hiding() -> Iterator[None]:
    """A block whose errors quote nothing: ours pass, those of libraries become one line."""
    try:
        yield
    except SfumatoError:
        raise
    except OSError:
        raise EngineError("a task could not write its part; every machine must see the folder") from None
    except Exception as error:
        raise EngineError(f"a task failed ({type(error).__name__})") from None
