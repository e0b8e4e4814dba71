"""Cells that no reader of the release could read are refused before they are published."""

from __future__ import annotations

import datetime
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError

EPOCH = datetime.date(1970, 1, 1)
DAYS = ((datetime.date.min - EPOCH).days, (datetime.date.max - EPOCH).days)  # of the years 1 to 9999
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}  # nanoseconds end in 2262


def check_sound(rows: Rows, *, texts: bool) -> Rows:
    """The rows; DataError where a date is infinite or beyond the calendar, or, with `texts`, bytes are no text.

    Texts are looked at where no engine has done so while it read them.
    """
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_date32(field.type) or pa.types.is_timestamp(field.type):
            _check_dates(field, column)
        elif texts and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                message = f'column "{field.name}" holds text that is not UTF-8; mend the source, or leave it out'
                raise DataError(message, column=field.name) from None
    return rows


def _check_dates(field: pa.Field, column: pa.Array | pa.ChunkedArray) -> None:
    units = 1 if pa.types.is_date32(field.type) else A_DAY.get(field.type.unit)
    if units is None:
        return
    found = pc.min_max(column)
    low, high = found["min"].value, found["max"].value
    if low is not None and (low < DAYS[0] * units or high >= (DAYS[1] + 1) * units):
        message = (
            f'column "{field.name}" holds a date that is infinite or outside the years 1 to 9999; '
            "turn it into null, or the column into text"
        )
        raise DataError(message, column=field.name)
