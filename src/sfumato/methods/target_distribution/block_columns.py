"""Columns of sensitive.parquet that tell the blocks of every group."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from ...model.public import Domain
from ...model.types import BIGINT, DOUBLE, INTEGER, TEXT, ColumnType

BLOCKS = {"block": INTEGER, "count": BIGINT}
LOW, HIGH, WORDS = "low", "high", "values"  # what a block covers: the ends of a range of numbers, or its values
ADDED = (*BLOCKS, LOW, HIGH, WORDS)
LARGEST = 2**62  # of numbers that are written as whole ones


def block_columns(domain: Domain, *, numeric: bool) -> dict[str, ColumnType]:
    """The columns and their types, for a sensitive column of this domain."""
    if not numeric:
        return BLOCKS | {WORDS: TEXT}
    ends = BIGINT if all_whole(value[0] for value in domain.values) else DOUBLE
    return BLOCKS | {LOW: ends, HIGH: ends}


def all_whole(numbers: Iterable[Any]) -> bool:
    """Whether the numbers are whole, and small enough to be written so."""
    return all(isinstance(n, int | float | Decimal) and n % 1 == 0 and -LARGEST < n < LARGEST for n in numbers)
