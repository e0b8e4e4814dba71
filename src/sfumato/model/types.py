"""Types of columns, in our own words; engines and the release format write them in theirs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from ..errors import ReleaseError


class Kind(StrEnum):
    """What a column's values are."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    REAL = "real"
    DECIMAL = "decimal"
    TEXT = "text"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column. Only what a kind needs is set."""

    kind: Kind
    bits: int = 0  # integer, real
    signed: bool = True  # integer
    precision: int = 0  # decimal
    scale: int = 0  # decimal
    unit: str = ""  # timestamp: s, ms, us or ns
    zoned: bool = False  # time, timestamp

    @property
    def numeric(self) -> bool:
        """Whether values can be added."""
        return self.kind in {Kind.INTEGER, Kind.REAL, Kind.DECIMAL}

    def __str__(self) -> str:
        """The type's name in release.json, which is also DuckDB's."""
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        return _NAME_OF[self]


TEXT = ColumnType(Kind.TEXT)
BOOLEAN = ColumnType(Kind.BOOLEAN)
INTEGER = ColumnType(Kind.INTEGER, bits=32)
SMALLINT = ColumnType(Kind.INTEGER, bits=16)
BIGINT = ColumnType(Kind.INTEGER, bits=64)
DOUBLE = ColumnType(Kind.REAL, bits=64)
_NAMED = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": ColumnType(Kind.INTEGER, bits=8),
    "SMALLINT": SMALLINT,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "UTINYINT": ColumnType(Kind.INTEGER, bits=8, signed=False),
    "USMALLINT": ColumnType(Kind.INTEGER, bits=16, signed=False),
    "UINTEGER": ColumnType(Kind.INTEGER, bits=32, signed=False),
    "UBIGINT": ColumnType(Kind.INTEGER, bits=64, signed=False),
    "FLOAT": ColumnType(Kind.REAL, bits=32),
    "DOUBLE": DOUBLE,
    "VARCHAR": TEXT,
    "DATE": ColumnType(Kind.DATE),
    "TIME": ColumnType(Kind.TIME),
    "TIME WITH TIME ZONE": ColumnType(Kind.TIME, zoned=True),
    "TIMESTAMP_S": ColumnType(Kind.TIMESTAMP, unit="s"),
    "TIMESTAMP_MS": ColumnType(Kind.TIMESTAMP, unit="ms"),
    "TIMESTAMP": ColumnType(Kind.TIMESTAMP, unit="us"),
    "TIMESTAMP_NS": ColumnType(Kind.TIMESTAMP, unit="ns"),
    "TIMESTAMP WITH TIME ZONE": ColumnType(Kind.TIMESTAMP, unit="us", zoned=True),
    "BLOB": ColumnType(Kind.BYTES),
}
_NAME_OF = {kind: name for name, kind in _NAMED.items()}
MOST_DIGITS = 38


def type_named(name: str) -> ColumnType:
    """The type that release.json calls by this name, or ReleaseError."""
    if name in _NAMED:
        return _NAMED[name]
    digits = re.fullmatch(r"DECIMAL\((\d{1,2}),\s?(\d{1,2})\)", name)
    if digits:
        precision, scale = int(digits[1]), int(digits[2])
        if 1 <= precision <= MOST_DIGITS and scale <= precision:
            return ColumnType(Kind.DECIMAL, precision=precision, scale=scale)
    raise ReleaseError(f'release.json names a type "{name[:60]}" that no release has')
