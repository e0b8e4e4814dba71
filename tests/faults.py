"""Faults for tests of engines that run tasks elsewhere: they strike in a task's first attempt, after its first batch.

Importable by the tasks themselves; every strike leaves a file, so that a test can count them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import ItemsView, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.engines.contract import Keys, Progress, Transform
from sfumato.engines.spark.sources import frame_of
from sfumato.engines.spark.table import SparkEngine, SparkTable

WRITING = -1  # the stage behind the shuffle
SLOW = 120.0  # seconds; a copy of the task is done long before


class Faulty:
    """A transform whose partitions meet faults: number of the partition -> "raise", "kill", "executor", "slow" or
    "always", which raises in every attempt. The fault of `WRITING` meets whoever writes a part."""

    def __init__(self, inner: Transform, faults: Mapping[int, str], folder: Path) -> None:
        self._inner, self._faults, self._folder = inner, dict(faults), folder
        self.units, self.dictionaries, self.bytes_held = inner.units, inner.dictionaries, inner.bytes_held
        if WRITING in self._faults:
            self.dictionaries = FaultyDictionaries(inner.dictionaries, self._faults[WRITING], folder)

    def apply(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._inner.apply(number, batch)

    def share(self, number: int, here: Sequence[pa.Table]) -> Any:
        return self._inner.share(number, here)

    def away(self) -> Faulty:
        return Faulty(self._inner.away(), self._faults, self._folder)

    def partition(self, number: int, share: Any) -> Transform:
        inner = self._inner.partition(number, share)
        fault = self._faults.get(number)
        return inner if fault is None else FaultyPartition(inner, fault, self._folder / f"{fault}-{number}")

    def close(self) -> None:
        self._inner.close()


class FaultyDictionaries(dict[str, pa.Array]):
    """Values of columns; whoever asks for them in a task's first attempt fails at the first rows of its file."""

    def __init__(self, inner: Mapping[str, pa.Array], fault: str, folder: Path) -> None:
        super().__init__(inner)
        self._fault, self._folder = fault, folder

    def __reduce__(self) -> Any:
        return FaultyDictionaries, (dict(self), self._fault, self._folder)

    def items(self) -> ItemsView[str, pa.Array]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and (context.attemptNumber() == 0 or self._fault == "always"):
            (self._folder / f"{self._fault}-writing-{context.partitionId()}").touch()
            self._strike_at_the_first_rows()
        return super().items()

    def _strike_at_the_first_rows(self) -> None:
        usual = pq.ParquetWriter.write_batch

        def struck(*_: Any) -> None:
            pq.ParquetWriter.write_batch = usual
            strike(self._fault)

        pq.ParquetWriter.write_batch = struck


class FaultyPartition(Faulty):
    """The transform of a partition that meets one fault."""

    def __init__(self, inner: Transform, fault: str, mark: Path) -> None:
        super().__init__(inner, {}, mark.parent)
        self._fault, self._mark = fault, mark

    def apply(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if number == 1 and (context.attemptNumber() == 0 or self._fault == "always"):
            self._mark.touch()
            strike(self._fault)
        elif number == 1 and self._fault == "slow":
            self._mark.with_name(self._mark.name.replace("slow", "copy")).touch()
        return self._inner.apply(number, batch)


def strike(fault: str) -> None:
    """An exception, the end of this process, the end of the executor above it, or a long wait."""
    match fault:
        case "raise" | "always":
            raise MemoryError("injected")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "executor":
            above = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(above, signal.SIGKILL)
            time.sleep(SLOW)
        case "slow":
            time.sleep(SLOW)


class FaultyEngine(SparkEngine):
    """Spark with faults; `folder` gets a file for each that struck."""

    def __init__(self, faults: Mapping[int, str], folder: Path, **options: Any) -> None:
        super().__init__(**options)
        self.faults, self.folder = faults, folder

    def open(self, source: Any) -> SparkTable:
        return FaultyTable(self, *frame_of(self.session, source, None))


class FaultyTable(SparkTable):
    """A table that is written with faults."""

    def write(
        self,
        columns: Sequence[str],
        transform: Transform,
        schema: pa.Schema,
        keys: Keys,
        path: Path,
        progress: Progress,
    ) -> int:
        engine = self._engine
        assert isinstance(engine, FaultyEngine)
        faulty = Faulty(transform, engine.faults, engine.folder)
        return super().write(columns, faulty, schema, keys, path, progress)


class ChangingEngine(SparkEngine):
    """Spark, while somebody replaces the file between the passes."""

    def __init__(self, file: Path, **options: Any) -> None:
        super().__init__(**options)
        self.file = file

    def open(self, source: Any) -> SparkTable:
        return ChangingTable(self, *frame_of(self.session, source, None))


class ChangingTable(SparkTable):
    """A table whose file is another when it is read again: as many rows, of which some hold other values."""

    def _shares(self, frame: Any, transform: Transform) -> tuple[int, dict[int, Any]]:
        engine, found = self._engine, super()._shares(frame, transform)
        assert isinstance(engine, ChangingEngine)
        table = pq.read_table(engine.file)
        disease = table["disease"].to_pylist()
        at = table.column_names.index("disease")
        table = table.set_column(at, "disease", pa.array([*disease[:100], *disease[-100:], *disease[200:]]))
        pq.write_table(table, engine.file, row_group_size=150)
        return found
