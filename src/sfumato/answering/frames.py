"""Answers as the data frames of other packages, which the plain install does not bring."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..errors import SpecError

MISSING = "a data frame of {0} needs {0}: pip install {0}; to_arrow() and rows() need nothing more"


def pandas_frame(table: pa.Table) -> Any:
    """The table as a pandas data frame."""
    try:
        return table.to_pandas()
    except ModuleNotFoundError:
        raise SpecError(MISSING.format("pandas")) from None


def polars_frame(table: pa.Table) -> Any:
    """The table as a Polars data frame."""
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise SpecError(MISSING.format("polars")) from None
    return pl.from_arrow(table)
