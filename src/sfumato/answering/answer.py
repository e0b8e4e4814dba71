"""Answers: every number with its error, in the shapes people use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..errors import SpecError, UnsupportedQuery
from ..model.names import ENDS, ERROR_ENDS
from ..model.public import Floats
from ..reports.text import csv_cell, json_text, number, percent, table, visible

MISSING = "a data frame of {0} needs {0}: pip install {0}; to_arrow() and rows() need nothing more"
MAY_BE_ZERO = "  (may be 0)"
WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer:
    """The answer to one question.

    `kind` is that of the least certain aggregate: "exact", "confidence" or "bounds". An aggregate named n has the
    columns n, n_se, n_low, n_high, and n_min, n_max where the method knows certain bounds besides an interval. Where
    these meet they are the number itself, which is what people are shown; n stays the unbiased estimate.
    """

    method: str
    level: float
    kind: str
    table: pa.Table
    aggregates: tuple[str, ...]
    caveats: tuple[str, ...] = ()
    chosen: bool = False  # whether estimates decided which rows are shown
    joint: Callable[[], Floats] | None = field(default=None, compare=False)  # worked out when asked for

    def covariance(self) -> Floats:
        """The covariances of all numbers of the answer: row by row, and in a row aggregate by aggregate.

        Number i stands in row i // m, aggregate i % m of `aggregates`, of which there are m. NaN where an error is not
        known; UnsupportedQuery where the method does not tell how errors go together.
        """
        if self.joint is None:
            raise UnsupportedQuery("covariances of these numbers are not told")
        return self.joint()

    def to_arrow(self) -> pa.Table:
        """The answer as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:
        """The answer as a pandas data frame."""
        return pandas_frame(self.table)

    def to_polars(self) -> Any:
        """The answer as a Polars data frame."""
        return polars_frame(self.table)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per row, with None where a number is not known; keys are as they were published, also NaN."""
        numbers = {f"{name}{end}" for name in self.aggregates for end in ENDS}
        return [
            {k: None if k in numbers and _endless(v) else v for k, v in row.items()} for row in self.table.to_pylist()
        ]

    def told_rows(self) -> list[dict[str, Any]]:
        """The rows as documents have them: keys that are NaN or infinite are words."""
        return [{k: WORDS[str(v)] if _endless(v) else v for k, v in row.items()} for row in self.rows()]

    def to_dict(self) -> dict[str, Any]:
        """The document of `sfumato query --format json`."""
        document: dict[str, Any] = {
            "method": self.method,
            "level": self.level,
            "kind": self.kind,
            "rows": self.told_rows(),
        }
        return document | ({"caveats": list(self.caveats)} if self.caveats else {})

    def to_json(self) -> str:
        """`to_dict` as JSON; dates and decimals as text."""
        return json_text(self.to_dict())

    def to_csv(self) -> str:
        """The answer as CSV with a header; text that a spreadsheet would run gets an apostrophe in front."""
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(csv_cell, self.table.column_names))
        writer.writerows(map(csv_cell, row.values()) for row in self.rows())
        return text.getvalue()

    def display(self) -> tuple[list[str], list[list[str]]]:
        """(header, rows) for people: one column per key, estimate and interval per aggregate."""
        rows = self.told_rows()
        header: list[str] = []
        cells: list[list[str]] = [[] for _ in range(self.table.num_rows)]
        names, skip = self.table.column_names, set()
        for name in self.aggregates:
            skip |= {f"{name}{end}" for end in ERROR_ENDS}
        for name in names:
            if name in self.aggregates:
                only_bounds = self.kind == "bounds" and any(r[name] is None for r in rows)
                interval = "certain bounds" if only_bounds else f"{percent(self.level)} interval"
                header += [name, "± se", interval] + (["certain bounds"] if f"{name}_min" in names else [])
                for row, out in zip(rows, cells, strict=True):
                    least, most = row.get(f"{name}_min"), row.get(f"{name}_max")
                    met = least is not None and least == most and row[f"{name}_se"] != 0
                    out.extend([number(least), "exact"] if met else [number(row[name]), number(row[f"{name}_se"])])
                    low, high = row[f"{name}_low"], row[f"{name}_high"]
                    # an interval that reaches zero: the release cannot tell the group from an empty one
                    empty = low is not None and high is not None and low <= 0 <= high and low < high
                    out.append(f"{number(low)} .. {number(high)}{MAY_BE_ZERO if empty else ''}")
                    if f"{name}_min" in names:
                        out.append(f"{number(least)} .. {number(most)}")
            elif name not in skip:
                header.append(name)
                for row, out in zip(rows, cells, strict=True):
                    value = row[name]
                    out.append("NULL" if value is None else number(value) if isinstance(value, float) else str(value))
        return header, cells

    def _repr_html_(self) -> str:
        """A table for notebooks; every interval is drawn on a scale that its column shares."""
        from ..reports.pages import answer_table

        return answer_table(
            self.table.column_names,
            self.told_rows(),
            aggregates=self.aggregates,
            method=self.method,
            level=self.level,
            kind=self.kind,
            caveats=self.caveats,
        )

    def __str__(self) -> str:
        return "\n".join([table(*self.display()), *(f"note: {visible(caveat)}" for caveat in self.caveats)])

    __repr__ = __str__


def _endless(value: Any) -> bool:
    """Whether it is a float that is no finite number."""
    return isinstance(value, float) and not math.isfinite(value)


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
