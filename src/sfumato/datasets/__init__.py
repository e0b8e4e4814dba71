"""Tables to try things on: a real one, carried in the package, and a generator of any size."""

from __future__ import annotations

from importlib.resources import as_file, files

import pyarrow as pa
import pyarrow.parquet as pq

from .census import census, census_table


def adult() -> pa.Table:
    """All 48,842 rows of UCI Adult: 15 columns, nulls in workclass, occupation and native_country."""
    with as_file(files("sfumato.datasets") / "adult.parquet") as path:  # source and licence: LICENSE-adult.md beside it
        return pq.read_table(path)


__all__ = ["adult", "census", "census_table"]
