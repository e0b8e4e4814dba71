"""The types of the columns of a CSV file, from all their cells, and notes on types that a few cells decided."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from .connection import quoted
from .csv_cells import PATTERNS, TEXT, CellForms, foreign_note, foreign_tests

VIEW, FIRST = "text", "first_rows"  # the file, all its cells as they are written; some of it
CELL = "cell"
FEW, FEW_OF = 20, 10  # so many cells, and at most one of so many, decide a type alone: worth a note
SHOWN_ROWS = 5
AT_ONCE = 64  # columns that one statement looks at: its time grows with their square
_SAID = {
    "BOOLEAN": "true or false",
    "BIGINT": "whole numbers",
    "DOUBLE": "numbers",
    "DATE": "dates",
    "TIMESTAMP": "dates with a time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """How many cells of a column are filled, and how many of them are of a kind; of a kind that more than FEW are not
    of it may be any number below that."""

    filled: int
    kinds: Mapping[str, int]

    def __add__(self, other: Fits) -> Fits:
        kinds = {k: self.kinds.get(k, 0) + other.kinds.get(k, 0) for k in PATTERNS}
        return Fits(filled=self.filled + other.filled, kinds=kinds)

    @property
    def kind(self) -> str:
        """The first kind that all filled cells are of; text where there is none."""
        return next((k for k in PATTERNS if self.filled and self.kinds.get(k, 0) == self.filled), TEXT)

    def may_be(self, kind: str) -> bool:
        """Whether all but FEW cells are of the kind: no other is chosen or worth a note, however many rows follow."""
        return self.filled - self.kinds.get(kind, 0) <= FEW

    @property
    def almost(self) -> str | None:
        """The kind that all but a few cells are of, where it is not the one that is chosen."""
        narrower = {TEXT: tuple(PATTERNS), "DOUBLE": ("BIGINT",)}.get(self.kind, ())
        most = min(FEW, self.filled // FEW_OF)
        near = [k for k in narrower if 0 < self.filled - self.kinds.get(k, 0) <= most]
        return max(near, key=lambda k: self.kinds.get(k, 0), default=None)


def column_types(
    con: duckdb.DuckDBPyConnection, found: Mapping[str, Fits], forms: CellForms, said: Container[str]
) -> tuple[dict[str, str], list[str]]:
    """(the type of every column, notes); `said` stay text."""
    types, notes = {}, []
    for name, fits in found.items():
        types[name] = TEXT if name in said else fits.kind
        if fits.almost and name not in said:
            notes.append(_note(con, name, forms.value(name, fits.almost), fits))
    notes += _foreign(con, [name for name, kind in types.items() if kind == TEXT and name not in said])
    return types, notes


def _foreign(con: duckdb.DuckDBPyConnection, names: Sequence[str]) -> Iterator[str]:
    """Notes on columns of text whose first cells are numbers or days as another country writes them."""
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        tests = [test for name in some for test in foreign_tests(name)]
        counts = con.execute(f"SELECT {', '.join(tests)} FROM {FIRST}").fetchall()[0]
        width = len(counts) // len(some)
        found = (foreign_note(name, counts[i * width : (i + 1) * width]) for i, name in enumerate(some))
        yield from (note for note in found if note)


def _note(con: duckdb.DuckDBPyConnection, name: str, value: str, fits: Fits) -> str:
    """Which rows decided the type; never what they hold. `value` is SQL: the cell as the type that almost all have."""
    assert fits.almost is not None
    misfits = fits.filled - fits.kinds[fits.almost]
    numbered = (
        f"SELECT row_number() OVER () AS row, {quoted(name)} IS NOT NULL AND ({value}) IS NULL AS odd FROM {VIEW}"
    )
    found = con.execute(f"SELECT row FROM ({numbered}) WHERE odd LIMIT {SHOWN_ROWS}").fetchall()
    rows = [str(row) for (row,) in found]
    more = ", ..." if misfits > len(rows) else ""
    cells, where = ("1 cell", "row") if misfits == 1 else (f"{misfits} cells", "rows")
    read = "text" if fits.kind == TEXT else "numbers with fractions"
    return (
        f'"{name}" is read as {read} because of {cells} ({where} {", ".join(rows)}{more} after the header); all others '
        f"are {_SAID[fits.almost]}: mend the file, or say --null or --types"
    )
