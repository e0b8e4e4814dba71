"""UCI Adult, the bundled real table. Source and licence: LICENSE-adult.md beside this file."""

from __future__ import annotations

from importlib.resources import as_file, files

import pyarrow as pa
import pyarrow.parquet as pq


def adult() -> pa.Table:
    """All 48,842 rows of UCI Adult: 15 columns, nulls in workclass, occupation and native_country."""
    with as_file(files("sfumato.datasets") / "adult.parquet") as path:
        return pq.read_table(path)
