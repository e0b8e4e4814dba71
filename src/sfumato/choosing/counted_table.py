"""A table that remembers what was counted: candidates ask the same counts of it. Private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..engines.contract import Engine, FollowingColumn, Keys, Progress, Reader, Table, Transform, Written
from ..model.coarsening import Recoding
from ..model.codebook import Labels
from ..model.private import Described, Filled, JointCells, Needs, PeopleCount, Profile
from ..model.public import Domain, Scalar
from ..model.types import ColumnType


class CountedTable:
    """The same table; profiles and cells are counted once for each way of asking."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.notes: tuple[str, ...] = table.notes
        self.labels: Mapping[str, Labels] = table.labels
        self.recoded: tuple[Recoding, ...] = table.recoded
        self._profiles: dict[Any, Profile] = {}
        self._cells: dict[Any, JointCells | None] = {}

    def __repr__(self) -> str:
        return repr(self._table)

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        return self._table.columns

    def profile(self, needs: Needs, declared: Mapping[str, Sequence[Scalar]], *, null_as_value: bool) -> Profile:
        asked = (needs, tuple((name, tuple(values)) for name, values in declared.items()), null_as_value)
        if asked not in self._profiles:
            self._profiles[asked] = self._table.profile(needs, declared, null_as_value=null_as_value)
        return self._profiles[asked]

    def cells(
        self, quasi: Sequence[str], sensitive: Sequence[Domain], looked_at: Mapping[int, Domain], *, limit: int
    ) -> JointCells | None:
        asked = (tuple(quasi), tuple(sensitive), tuple(looked_at.items()), limit)
        if asked not in self._cells:
            self._cells[asked] = self._table.cells(quasi, sensitive, looked_at, limit=limit)
        return self._cells[asked]

    def binned(self, edges: Mapping[str, Sequence[float]]) -> Table:
        return self._table.binned(edges)

    def people(self, column: str) -> PeopleCount:
        return self._table.people(column)

    def keeping(self, column: str, most: int, columns: Sequence[str], keys: Keys) -> Table:
        return self._table.keeping(column, most, columns, keys)

    def filled(self, columns: Sequence[str]) -> Mapping[str, Filled]:
        return self._table.filled(columns)

    def describe(self, columns: Sequence[str], *, examples: int = 0) -> Mapping[str, Described]:
        return self._table.describe(columns, examples=examples)

    def arrow_types(self) -> Mapping[str, pa.DataType]:
        return self._table.arrow_types()

    def write(
        self,
        columns: Sequence[str],
        transform: Transform,
        schema: pa.Schema,
        keys: Keys,
        path: Path,
        progress: Progress,
        following: Sequence[FollowingColumn] = (),
    ) -> Written:
        return self._table.write(columns, transform, schema, keys, path, progress, following)


class CountedEngine:
    """An engine whose source is open already: one table for all candidates."""

    def __init__(self, engine: Engine, table: Table) -> None:
        self._engine, self._table, self.name = engine, CountedTable(table), engine.name

    def open(self, source: Any, *, delimiter: str | None = None) -> Table:  # noqa: ARG002
        return self._table

    def read(self, data: Sequence[Path]) -> Reader:
        return self._engine.read(data)
