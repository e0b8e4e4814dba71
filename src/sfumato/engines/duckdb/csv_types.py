"""The types of the columns of a CSV file, from all their cells, and notes on types that a few cells decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from ...errors import DataError
from ...lazily import compute
from .connection import quoted
from .csv_cells import PATTERNS, TEXT, CellForms, foreign_note, foreign_tests

VIEW = "text"  # the file, all its cells as they are written
FEW, FEW_OF = 20, 10  # so many cells, and at most one of so many, decide a type alone: worth a note
SHOWN_ROWS = 5
AT_ONCE = 64  # columns that one statement looks at: its time grows with their square, reading the file again does not
SAMPLE = 10_000  # first rows, which tell what a column may be
_SAID = {
    "BOOLEAN": "true or false",
    "BIGINT": "whole numbers",
    "DOUBLE": "numbers",
    "DATE": "dates",
    "TIMESTAMP": "dates with a time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """How many cells of a column are filled, and how many of them are of a kind; a kind may be missing that none is
    of, or that more than FEW are not of."""

    filled: int
    kinds: Mapping[str, int]

    @property
    def kind(self) -> str:
        """The first kind that all filled cells are of; text where there is none."""
        return next((k for k in PATTERNS if self.filled and self.kinds.get(k, 0) == self.filled), TEXT)

    @property
    def open(self) -> tuple[str, ...]:
        """The kinds that all but FEW cells are of: no other is chosen or worth a note, however many rows follow."""
        return tuple(k for k in PATTERNS if self.filled - self.kinds.get(k, 0) <= FEW)

    @property
    def almost(self) -> str | None:
        """The kind that all but a few cells are of, where it is not the one that is chosen."""
        narrower = {TEXT: tuple(PATTERNS), "DOUBLE": ("BIGINT",)}.get(self.kind, ())
        most = min(FEW, self.filled // FEW_OF)
        near = [k for k in narrower if 0 < self.filled - self.kinds.get(k, 0) <= most]
        return max(near, key=lambda k: self.kinds.get(k, 0), default=None)


def column_types(
    con: duckdb.DuckDBPyConnection, names: list[str], forms: CellForms, said: set[str], held: pa.Table | None
) -> tuple[dict[str, str], list[str]]:
    """(the type of every column, notes); `said` stay text. `held` are the rows of the view, where they are at hand."""
    if held is not None:
        found = _of_different_cells(con, held, forms)
    else:
        parts = (names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE))
        found = [fits for some in parts for fits in _of_all_rows(con, some, forms)]
    types, notes = {}, []
    for name, fits in zip(names, found, strict=True):
        types[name] = TEXT if name in said else fits.kind
        if fits.almost and name not in said:
            notes.append(_note(con, name, forms.value(name, fits.almost), fits))
    notes += _foreign(con, [name for name, kind in types.items() if kind == TEXT and name not in said])
    return types, notes


def _of_different_cells(con: duckdb.DuckDBPyConnection, held: pa.Table, forms: CellForms) -> list[Fits]:
    """Of rows at hand: one statement over the different cells of all columns."""
    if not held.num_rows:
        raise _no_rows()
    counted = [compute.value_counts(column.combine_chunks()) for column in held.columns]
    number = pa.array([j for j, found in enumerate(counted) for _ in range(len(found))], type=pa.int32())
    cells = pa.chunked_array([found.field("values") for found in counted])
    rows = pa.chunked_array([found.field("counts") for found in counted])
    con.register("cells", pa.table({"number": number, "cell": cells, "rows": rows}))
    tests = [f"sum(CASE WHEN ({forms.value('cell', kind)}) IS NULL THEN 0 ELSE rows END)" for kind in PATTERNS]
    asked = f"SELECT number, sum(rows), {', '.join(tests)} FROM cells WHERE cell IS NOT NULL GROUP BY number"
    known = {
        j: Fits(filled=int(filled), kinds={k: int(n) for k, n in zip(PATTERNS, fits, strict=True)})
        for j, filled, *fits in con.execute(asked).fetchall()
    }
    con.unregister("cells")
    return [known.get(j, Fits(filled=0, kinds={})) for j in range(held.num_columns)]


def _of_all_rows(con: duckdb.DuckDBPyConnection, names: Sequence[str], forms: CellForms) -> list[Fits]:
    """Of a file that is read again: the first rows tell which kinds are worth a test on all of them."""
    first = _tested(con, dict.fromkeys(names, tuple(PATTERNS)), forms, f"(SELECT * FROM {VIEW} LIMIT {SAMPLE})")
    found = _tested(con, {name: _likely(fits) for name, fits in first.items()}, forms, VIEW)
    guessed = {name: fits for name, fits in first.items() if fits.kind != TEXT}
    wrong = {name: fits.open for name, fits in guessed.items() if found[name].kind != fits.kind}
    return list((found | (_tested(con, wrong, forms, VIEW) if wrong else {})).values())


def _likely(first: Fits) -> tuple[str, ...]:
    """The kind of all first cells, and what would be worth a note beside it; every open one where there is none."""
    if first.kind == TEXT:
        return first.open
    return tuple(k for k in first.open if k == first.kind or (first.kind == "DOUBLE" and k == "BIGINT"))


def _tested(
    con: duckdb.DuckDBPyConnection, kinds: Mapping[str, Sequence[str]], forms: CellForms, rows: str
) -> dict[str, Fits]:
    """For every column how many cells are filled, and how many of them fit the pattern of each kind and are of it."""
    tests = ["count(*)"]
    for name, some in kinds.items():
        # CASE, not FILTER: the engine needs quadratic time for many filtered aggregates
        tests += [f"count({quoted(name)})", *(f"count({forms.value(name, kind)})" for kind in some)]
    counts = iter(con.execute(f"SELECT {', '.join(tests)} FROM {rows}").fetchall()[0])
    if not next(counts):
        raise _no_rows()
    return {
        name: Fits(filled=next(counts), kinds={kind: next(counts) for kind in some}) for name, some in kinds.items()
    }


def _no_rows() -> DataError:
    return DataError("the CSV file has a header and no rows")


def _foreign(con: duckdb.DuckDBPyConnection, names: Sequence[str]) -> Iterator[str]:
    """Notes on columns of text whose first cells are numbers or days as another country writes them."""
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        tests = [test for name in some for test in foreign_tests(name)]
        counts = con.execute(f"SELECT {', '.join(tests)} FROM (SELECT * FROM {VIEW} LIMIT {SAMPLE})").fetchall()[0]
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
