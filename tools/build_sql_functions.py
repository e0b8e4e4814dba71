"""Writes docs/reference/sql-functions.md: every function and operator that a question may use, from the parser's lists.

    python -m tools.build_sql_functions

tests/docs/test_sql_functions.py holds the page to the parser, and asks a release with every function on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlglot

from sfumato.sql import scalar
from sfumato.sql.aggregates import AGGREGATES, DIRECT, NAMED_DIRECT
from sfumato.sql.parse import ENDS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "sql-functions.md"
HEAD = """# SQL functions

Everything that a question to a release may use, in DuckDB's spelling; whatever is not here is refused by name.
Generated from the parser by `tools/build_sql_functions.py`; a test asks each of them. What questions look like:
[SQL](../sql.md).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One way to write something, on a column of numbers `x`, of texts `t`, of dates `d`, or on aggregates."""

    text: str
    says: str


AGGREGATED = (
    Entry(text="COUNT(*)", says="rows; `COUNT(x)`: rows in which x is not missing"),
    Entry(text="COUNT_IF(x > 1)", says="rows that meet a condition"),
    Entry(text="SUM(x)", says="sum"),
    Entry(text="AVG(x)", says="average; of `CASE WHEN ... THEN 1 ELSE 0 END`: a share"),
    Entry(text="MIN(x)", says="smallest value; of a randomised column only where the method has certain bounds"),
    Entry(text="MAX(x)", says="largest value; likewise"),
    Entry(text="MEDIAN(x)", says="a value in the middle"),
    Entry(text="QUANTILE(x, 0.9)", says="the value below which a share lies"),
    Entry(text="QUANTILE_CONT(x, 0.9)", says="the same; between two values where the column is untouched"),
    Entry(text="QUANTILE_DISC(x, 0.9)", says="the same; a value that occurs"),
)
UNTOUCHED = (
    *(Entry(text=f"{f}(x)", says="") for f in ("STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP")),
    *(Entry(text=f"{f}(x, y)", says="") for f in ("CORR", "COVAR_POP", "COVAR_SAMP")),
    *(Entry(text=f"REGR_{f}(x, y)", says="") for f in ("SLOPE", "INTERCEPT", "R2", "COUNT", "AVGX", "AVGY")),
    *(Entry(text=f"{f}(x)", says="") for f in ("SKEWNESS", "KURTOSIS", "APPROX_COUNT_DISTINCT")),
    *(Entry(text=f"{f}(x)", says="") for f in ("MAD", "ENTROPY", "GEOMEAN", "GEOMETRIC_MEAN", "KURTOSIS_POP", "SEM")),
    Entry(text="COUNT(DISTINCT x)", says=""),
)
ERRORS = (
    Entry(text="INTERVAL_LOW(n)", says="lower end of the interval of an aggregate or of its alias"),
    Entry(text="INTERVAL_HIGH(n)", says="upper end"),
    Entry(text="STD_ERROR(n)", says="standard error"),
)
SCALARS = {
    "Conditions": (
        Entry(text="x = 1", says="also `<>` `<` `<=` `>` `>=`"),
        Entry(text="x <> 1", says=""),
        Entry(text="x < 1", says=""),
        Entry(text="x <= 1", says=""),
        Entry(text="x > 1", says=""),
        Entry(text="x >= 1", says=""),
        Entry(text="x IN (1, 2)", says="one of a list"),
        Entry(text="x BETWEEN 1 AND 2", says="ends included"),
        Entry(text="t LIKE 'a%'", says="`%` stands for any characters, `_` for one"),
        Entry(text="t ILIKE 'a%'", says="the same, whatever the case"),
        Entry(text="t LIKE 'a!%' ESCAPE '!'", says="a percent sign that is one"),
        Entry(text="x IS NULL", says="missing; `IS NOT NULL`"),
        Entry(text="x IS DISTINCT FROM 1", says="a comparison in which missing is a value; `IS NOT DISTINCT FROM`"),
        Entry(text="x IS NOT DISTINCT FROM 1", says=""),
        Entry(text="x = 1 AND y = 1", says="both"),
        Entry(text="x = 1 OR y = 1", says="either, or both"),
        Entry(text="NOT x = 1", says="the opposite"),
        Entry(text="TRUE", says="always; `FALSE`"),
    ),
    "Numbers": (
        Entry(text="x + 1", says=""),
        Entry(text="x - 1", says=""),
        Entry(text="x * 2", says=""),
        Entry(text="x / 2", says="a quotient with its fraction"),
        Entry(text="x // 2", says="a quotient without"),
        Entry(text="x % 2", says="what is left"),
        Entry(text="-x", says=""),
        Entry(text="ABS(x)", says=""),
        Entry(text="FLOOR(x)", says=""),
        Entry(text="CEIL(x)", says=""),
        Entry(text="ROUND(x, 1)", says=""),
        Entry(text="GREATEST(x, y)", says="the larger"),
        Entry(text="LEAST(x, y)", says="the smaller"),
    ),
    "Texts": (
        Entry(text="SUBSTRING(t, 1, 2)", says="from the first character, two"),
        Entry(text="LEFT(t, 2)", says=""),
        Entry(text="RIGHT(t, 2)", says=""),
        Entry(text="LOWER(t)", says=""),
        Entry(text="UPPER(t)", says=""),
        Entry(text="LENGTH(t)", says=""),
        Entry(text="TRIM(t)", says=""),
        Entry(text="t || 'a'", says="joined"),
        Entry(text="CONCAT(t, 'a')", says="joined"),
    ),
    "Dates": (
        Entry(text="YEAR(d)", says=""),
        Entry(text="MONTH(d)", says=""),
        Entry(text="DAY(d)", says=""),
        Entry(text="QUARTER(d)", says=""),
        Entry(text="WEEK(d)", says=""),
        Entry(text="DAYOFWEEK(d)", says=""),
        Entry(text="DAYOFYEAR(d)", says=""),
        Entry(text="EXTRACT(year FROM d)", says=""),
        Entry(text="DATE_TRUNC('month', d)", says="the first day of its month"),
        Entry(text="d > DATE '2025-01-31'", says="a date in the text"),
        Entry(text="d + INTERVAL 1 DAY", says="later"),
    ),
    "Choices and types": (
        Entry(text="CASE WHEN x > 1 THEN 1 ELSE 0 END", says=""),
        Entry(text="IF(x > 1, 1, 0)", says=""),
        Entry(text="COALESCE(x, 0)", says="the first that is not missing"),
        Entry(text="NULLIF(x, 0)", says="missing instead of a value"),
        Entry(text="CAST(x AS INTEGER)", says=""),
        Entry(text="TRY_CAST(t AS INTEGER)", says="missing where it cannot be read"),
    ),
}
STRUCTURE = {  # parts of expressions that have no line of their own
    *("Column", "Identifier", "Literal", "Paren", "Tuple", "DataType", "DataTypeParam", "Var", "Null", "Boolean"),
    *("Date", "DateTrunc", "Interval", "TimestampTrunc"),  # DATE_TRUNC is read as either
}


def kinds(entries: tuple[Entry, ...]) -> set[str]:
    """The names of the parser's classes that the entries are read as."""
    found: set[str] = set()
    for entry in entries:
        read: Any = sqlglot.parse_one(f"SELECT {entry.text}", dialect="duckdb").expressions[0]
        found |= {type(part).__name__ for part in read.walk()}
    return found


def missing() -> set[str]:
    """What the parser allows and the page does not have."""
    scalars = tuple(entry for entries in SCALARS.values() for entry in entries)
    left = {c.__name__ for c in scalar.ALLOWED} - STRUCTURE - kinds(scalars)
    left |= {c.__name__ for c in AGGREGATES} - kinds(AGGREGATED)
    left |= {c.__name__ for c in DIRECT} - kinds(UNTOUCHED)
    left |= NAMED_DIRECT - {entry.text.partition("(")[0] for entry in UNTOUCHED}
    return left | (set(ENDS) - {entry.text.partition("(")[0] for entry in ERRORS})


def _table(entries: tuple[Entry, ...]) -> Iterator[str]:
    yield "| write | what it gives |"
    yield "|---|---|"
    for entry in entries:
        yield f"| `{entry.text.replace('|', chr(92) + '|')}` | {entry.says.replace('|', chr(92) + '|')} |"
    yield ""


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    yield "## Aggregates\n"
    yield "Of any column, randomised or not, each with `FILTER (WHERE ...)` if you like; each comes with its error.\n"
    yield from _table(AGGREGATED)
    yield "## Errors of aggregates\n"
    yield "In SELECT, HAVING and ORDER BY.\n"
    yield from _table(ERRORS)
    yield "## Aggregates of untouched columns\n"
    yield "Exact, where no randomised column is in the question; else refused.\n"
    yield ", ".join(f"`{entry.text}`" for entry in UNTOUCHED) + "\n"
    for title, entries in SCALARS.items():
        yield f"## {title}\n"
        yield from _table(entries)
    yield "## Totals over groups\n"
    yield "`SUM(COUNT(*)) OVER ()` and `SUM(COUNT(*)) OVER (PARTITION BY key)`, for shares of totals.\n"


def page() -> str:
    """The whole page."""
    return "\n".join(lines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
