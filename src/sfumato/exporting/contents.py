"""What is exported: the published rows, the values that leave by group, weights, and a few lines about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.coded_texts import open_coded, written_out
from ..model.names import free_name
from ..release.opened import OpenedRelease
from .weights import UnitWeights, weights_of

BATCH = 65_536
ROW = "row_id"
WARNING = "values are randomised or regrouped: counting them as they are gives wrong numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything that a target may hold. `rows` gives the published rows with their number, batch by batch."""

    release: OpenedRelease
    weights: tuple[UnitWeights, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the published rows, their number first."""
        columns = pq.read_schema(self.release.path / self.release.manifest.data_files[0])
        return pa.schema([pa.field(free_name(ROW, columns.names), pa.int64()), *columns])

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The published rows, numbered from 1."""
        done, schema = 0, self.schema
        for file in open_coded([self.release.path / name for name in self.release.manifest.data_files]):
            with file:
                for batch in (piece for some in file.iter_batches(BATCH) for piece in written_out(some)):
                    number = pa.array(range(done + 1, done + batch.num_rows + 1), pa.int64())
                    yield pa.RecordBatch.from_arrays([number, *batch.columns], schema=schema)
                    done += batch.num_rows

    @property
    def side(self) -> pa.Table | None:
        """Values that leave by group."""
        if "sensitive.parquet" not in self.release.manifest.files:
            return None
        return pq.read_table(self.release.path / "sensitive.parquet")

    @property
    def about(self) -> dict[str, str]:
        """What whoever opens the target should know first."""
        manifest = self.release.manifest
        changed = ", ".join(name for unit in manifest.units for name in unit.columns)
        return {
            "warning": f"{changed}: {WARNING}",
            "method": manifest.method,
            "guarantee": manifest.guarantee.statement,
            "trust": str(manifest.guarantee.trust),
            "rows": str(manifest.rows),
            "release": manifest.files[manifest.data_files[0]].sha256,
            **({} if self.weights else {"weights": "this method has none; ask the release with sfumato query"}),
        }


def contents_of(release: OpenedRelease) -> Contents:
    """Everything that may be exported of a release."""
    return Contents(release=release, weights=weights_of(release))


def flat(batch: pa.RecordBatch | pa.Table, *, texts: bool = False) -> Any:
    """The batch with lists as JSON texts and dictionaries as their values; with `texts`, bytes as their digits."""
    columns, fields = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        plain = column.cast(field.type.value_type) if pa.types.is_dictionary(field.type) else column
        if texts and pa.types.is_binary(plain.type):
            plain = pa.array([None if v is None else v.hex() for v in plain.to_pylist()], pa.string())
        if pa.types.is_nested(field.type):
            lists = [None if v is None else json.dumps(v, default=str, ensure_ascii=False) for v in column.to_pylist()]
            plain = pa.array(lists, pa.string())
        columns.append(plain)
        fields.append(pa.field(field.name, plain.type))
    return type(batch).from_arrays(columns, schema=pa.schema(fields))
