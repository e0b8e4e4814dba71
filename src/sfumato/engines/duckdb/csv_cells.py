"""What a cell of a CSV file may be: a number, a date, true or false, as the country that wrote the file writes them.

The reader's own sniffer is not used: it skips lines that it does not understand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..written_dates import date_format, date_pattern
from .connection import quoted

# What a column of text becomes: the first type whose pattern every non-empty cell fits. Whole numbers with a leading
# zero (01234) are codes, hence text; so are numbers and moments with more digits than the type holds, and
# numbers that would become infinite or 0.
PATTERNS = {
    "BOOLEAN": "^(true|false|TRUE|FALSE|True|False)$",
    "BIGINT": "^[+-]?(0|[1-9][0-9]{0,17})$",
    "DOUBLE": r"^[+-]?([0-9]|[1-9][0-9]{1,14})?(\.[0-9]*)?([eE][+-]?0*([0-9]{1,2}|1[0-9]{2}|2[0-8][0-9]))?$",
    "DATE": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "TIMESTAMP": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6}0*)?)?$",
}
TEXT = "VARCHAR"
POINT = "."
FOREIGN = {  # what cells of text may be, how they look, and the option that reads them
    "numbers with a decimal comma": ("^[+-]?([0-9]|[1-9][0-9]{1,14})(,[0-9]+)?$", "--decimal ','"),
    "days, dots between the parts": (r"^[0-9]{1,2}[.][0-9]{1,2}[.][0-9]{4}$", "--dates DD.MM.YYYY"),
    "days, strokes between the parts": ("^[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}$", "--dates DD/MM/YYYY or MM/DD/YYYY"),
}
SIGN = "[,./]"  # stands in one cell at least


@dataclass(frozen=True, slots=True, kw_only=True)
class CellForms:
    """How the cells of a file are written: the sign before a fraction, and days where they are not as 2025-12-31."""

    point: str = POINT
    dates: str | None = None

    def value(self, name: str, kind: str) -> str:
        """SQL: the cell of a column as a value of the kind; NULL where it is none."""
        cell = quoted(name)
        return f"CASE WHEN regexp_matches({cell}, '{self._pattern(kind)}') THEN {self._read(cell, kind)} END"

    def plain(self, name: str, kind: str) -> str | None:
        """SQL: the text of a cell as everybody writes the kind of type that is asked for; None: as it is."""
        cell = quoted(name)
        number = kind in {"DOUBLE", "FLOAT", "REAL"} or kind.startswith(("DECIMAL", "NUMERIC"))
        if number and self.point != POINT:
            fits = f"regexp_matches({cell}, '{self._pattern('DOUBLE')}')"
            return f"CASE WHEN {fits} THEN {self._number(cell)} ELSE {cell} END"
        if kind == "DATE" and self.dates:
            return f"COALESCE(CAST({self.value(name, kind)} AS VARCHAR), {cell})"
        return None

    def differs(self, kind: str) -> bool:
        """Whether the reading library would read values of this kind otherwise."""
        return (kind == "DOUBLE" and self.point != POINT) or (kind == "DATE" and self.dates is not None)

    def _pattern(self, kind: str) -> str:
        if kind == "DATE" and self.dates:
            return date_pattern(self.dates)
        return PATTERNS[kind].replace(r"\.", f"[{self.point}]") if kind == "DOUBLE" else PATTERNS[kind]

    def _read(self, cell: str, kind: str) -> str:
        if kind == "DATE" and self.dates:
            return f"CAST(try_strptime({cell}, '{date_format(self.dates)}') AS DATE)"
        return f"TRY_CAST({self._number(cell) if kind == 'DOUBLE' else cell} AS {kind})"

    def _number(self, cell: str) -> str:
        return cell if self.point == POINT else f"replace({cell}, '{self.point}', '{POINT}')"


def foreign_tests(name: str) -> list[str]:
    """SQL aggregates: filled cells, those with a sign of a foreign writing, those that fit each of them."""
    cell = quoted(name)
    fits = [f"count(CASE WHEN regexp_matches({cell}, '{pattern}') THEN 1 END)" for pattern, _ in FOREIGN.values()]
    return [f"count({cell})", f"count(CASE WHEN regexp_matches({cell}, '{SIGN}') THEN 1 END)", *fits]


def foreign_note(name: str, counts: Sequence[int]) -> str | None:
    """What to say of a text column whose cells are numbers or days of another writing; counts as `foreign_tests`."""
    filled, signs, *fits = counts
    for (what, (_, way)), fit in zip(FOREIGN.items(), fits, strict=True):
        if signs and filled == fit:
            return f'"{name}" is read as text; its cells look like {what}: if they are, say {way}'
    return None
