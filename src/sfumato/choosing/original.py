"""The custodian's table, to be asked many questions and, where it fits, to try methods on. Private."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..engines import scratch
from ..engines.contract import Engine, Table, Transform
from ..engines.statements import counted
from ..errors import EngineError
from ..model.public import Scalar

HELD_BYTES = 2**28  # of batches that stay in memory
Key = tuple[Scalar, ...]


class Original:
    """The custodian's table, copied once into a private temporary folder so that it can be asked many questions.

    `hold`: its rows stay in memory, too, where they fit: methods are tried on them many times.
    """

    def __init__(self, table: Table, columns: Sequence[str], engine: Engine, *, hold: bool = False) -> None:
        self._folder = scratch.new_folder("truth")
        weakref.finalize(self, scratch.remove, self._folder)
        types = table.arrow_types()
        schema = pa.schema([pa.field(name, types[name]) for name in columns])
        path = self._folder / "truth.parquet"
        copied = _AsItIs(HELD_BYTES if hold else 0)
        self.rows = table.write(columns, copied, schema, _no_order, path, lambda _: None).rows
        self.held = None if copied.room < 0 or not hold else tuple(copied.held)
        self.types = {name: table.columns[name] for name in columns}
        self.reader = engine.read([path])

    def __repr__(self) -> str:
        return "<the original table>"

    def counts(self, columns: Sequence[str], where: Sequence[str] = ()) -> dict[Key, int]:
        """True counts of the combinations of some columns."""
        table, weight = self.reader.source()
        found = self.reader.run(counted(columns, table=table, weight=weight, where=where))
        cells = [column.to_pylist() for column in found.columns]
        return {tuple(row[:-1]): row[-1] for row in zip(*cells, strict=True)}


class _AsItIs:
    """The transform that changes nothing, on one machine: a cluster's table is not copied to it."""

    units: tuple[tuple[str, ...], ...] = ()
    dictionaries: Mapping[str, pa.Array] = MappingProxyType({})
    bytes_held = 0  # beside `held`, which has a bound of its own

    def __init__(self, room: int) -> None:
        self.held: list[pa.RecordBatch] = []
        self.room = room  # bytes of batches that may still be held; below 0 none is

    def split(self, _: int, batch: pa.RecordBatch) -> Callable[[], pa.RecordBatch]:
        self.room -= batch.nbytes
        self.held = [*self.held, batch] if self.room >= 0 else []
        return lambda: batch

    def share(self, number: int, here: Sequence[pa.Table]) -> Any:  # noqa: ARG002
        raise _one_machine()

    def away(self) -> Transform:
        raise _one_machine()

    def partition(self, number: int, share: Any) -> Transform:  # noqa: ARG002
        raise _one_machine()

    def close(self) -> None:
        """Nothing was counted before."""


def _one_machine() -> EngineError:
    return EngineError("this copies the table to one machine; take the local engine, and a sample where it is large")


def _no_order(number: int, rows: int) -> NDArray[np.uint64]:
    """Keys that are spread evenly, as the engine expects them; what order they make does not matter here."""
    return (np.arange(rows, dtype=np.uint64) + (np.uint64(number) << np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
