"""What publishing asks of an engine: shapes of work, never methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ..model.private import Needs, Profile
from ..model.public import Domain, Scalar

Transform = Callable[[int, pa.RecordBatch], pa.RecordBatch]  # (number of the batch, rows) -> rows as published
Keys = Callable[[int, int], "np.typing.NDArray[np.uint64]"]  # (number of the batch, rows) -> 64-bit sort keys
Progress = Callable[[int], None]  # rows done so far


class Table(Protocol):
    """A private handle on the custodian's table."""

    @property
    def columns(self) -> Mapping[str, str]:
        """Name -> DuckDB type, in the table's order."""

    def profile(self, needs: Needs, declared: Mapping[str, Sequence[Scalar]], *, null_as_value: bool) -> Profile:
        """First pass: domains and joint counts."""

    def binned(self, edges: Mapping[str, Sequence[float]]) -> Table:
        """The same table with some numeric columns replaced by the label of their bin."""

    def arrow_types(self) -> Mapping[str, pa.DataType]:
        """Arrow type of every column as `write` will hand it to the transform."""

    def write(
        self,
        columns: Sequence[str],
        transform: Transform,
        schema: pa.Schema,
        keys: Keys,
        path: Path,
        progress: Progress,
    ) -> int:
        """Second pass: stream the columns through the transform into one Parquet file in key order; rows written."""


def bin_labels(edges: Sequence[float]) -> list[str]:
    """Names of the half-open bins from each edge to the next; the last has no upper end."""
    return [f"[{a:g}, {b:g})" for a, b in pairwise(edges)] + [f"[{edges[-1]:g}, inf)"]


class Engine(Protocol):
    """Opens tables."""

    name: str

    def open(self, source: Any, *, delimiter: str | None = None) -> Table:
        """A handle on the source; nothing is read yet but its schema."""


__all__ = ["Domain", "Engine", "Keys", "Progress", "Table", "Transform", "bin_labels"]
