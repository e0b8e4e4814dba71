"""Cells that no reader of the release could read are refused before they are published."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError

# Databases keep "infinity" in the last numbers of a type, which drivers may shift: beyond these no calendar goes.
ENDLESS = {"day": 2_147_000_000, "us": 9_220_000_000_000_000_000}
A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def check_sound(rows: Rows, *, texts: bool) -> Rows:
    """The rows; DataError where a date is infinite, a time 24:00, or, with `texts`, bytes are no text.

    Texts are looked at where no engine has done so while it read them.
    """
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_date32(field.type) or pa.types.is_timestamp(field.type):
            _check_dates(field, column)
        elif pa.types.is_time(field.type):
            _check_times(field, column)
        elif texts and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                message = f'column "{field.name}" holds text that is not UTF-8; mend the source, or leave it out'
                raise DataError(message, column=field.name) from None
    return rows


def _check_times(field: pa.Field, column: pa.Array | pa.ChunkedArray) -> None:
    latest = pc.max(column).value
    if latest is not None and latest >= A_DAY[field.type.unit]:
        message = f'column "{field.name}" holds the time 24:00, which no reader knows; turn it into text, or into 00:00'
        raise DataError(message, column=field.name)


def _check_dates(field: pa.Field, column: pa.Array | pa.ChunkedArray) -> None:
    end = ENDLESS.get("day" if pa.types.is_date32(field.type) else field.type.unit)
    found = pc.min_max(column)
    low, high = found["min"].value, found["max"].value
    if end is not None and low is not None and max(-low, high) >= end:
        message = f'column "{field.name}" holds an infinite date; turn it into null, or the column into text'
        raise DataError(message, column=field.name)
