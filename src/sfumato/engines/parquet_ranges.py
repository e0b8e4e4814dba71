"""How many combinations some columns of Parquet files can have at most, by what their footers say of whole numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa

from ..lazily import parquet as pq


def most_combinations(files: Sequence[Path], columns: Collection[str]) -> int | None:
    """The product of the columns' ranges, a missing value counted; None where the footers do not tell all of them."""
    try:
        footers = [pq.read_metadata(file) for file in files]
    except (pa.ArrowException, OSError):
        return None
    ranges = [_range(footers, name) for name in columns]
    return math.prod(size for size in ranges if size is not None) if footers and None not in ranges else None


def _range(footers: Sequence[pq.FileMetaData], name: str) -> int | None:
    """Numbers from the least to the largest of a column of whole numbers, and one more for none."""
    least, most = [], []
    for footer in footers:
        place = next((j for j in range(footer.num_columns) if footer.schema.column(j).path == name), None)
        if place is None:
            return None
        for group in range(footer.num_row_groups):
            found = footer.row_group(group).column(place).statistics
            if found is None or not found.has_min_max or type(found.min) is not int or type(found.max) is not int:
                return None
            least.append(found.min)
            most.append(found.max)
    return max(most) - min(least) + 2 if least else None
