"""The readers of a plan, a release or a method, as one table: the same wherever it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .text import bullets, table

READER_NAMES = ("value", "set", "histogram", "linking", "corruption", "person")
SHOWN = 6


def render_readers(readers: Sequence[Mapping[str, Any]]) -> str:
    """Reader, whether the bound holds for her, the largest posterior she reaches, and why."""
    rows = [[name_of(r), verdict(r["held"]), reached(r["posterior"]), r["why"]] for r in readers]
    return table(["reader", "held", "posterior", "why"], rows)


def name_of(reader: Mapping[str, Any]) -> str:
    """The reader's name, with the rows of a person where there are several."""
    rows = reader.get("rows") or 1
    return reader["reader"] if rows == 1 else f"{reader['reader']}, {rows} rows"


def verdict(held: bool | None) -> str:
    """yes, no, or that it is not stated."""
    return "not stated" if held is None else "yes" if held else "no"


def reached(posterior: float | None) -> str:
    """A posterior as people read it; a dash where there is none."""
    return "-" if posterior is None else f"{posterior:.4f}".rstrip("0").rstrip(".")


def render_unprotected(found: Mapping[str, Any] | None) -> str | None:
    """Which values the guarantee does not cover and how many rows hold one; None where all are covered."""
    if not found or not found["values"]:
        return None
    names = [", ".join(map(str, v)) if isinstance(v, list) else str(v) for v in found["values"]]
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    reach = found.get("posterior")
    more = "" if reach is None else f"; reader histogram reaches {reached(reach)} there"
    return f"not covered, because too frequent: {shown} ({found['share']:.0%} of the rows{more})"


def render_cells(found: Mapping[str, Any] | None, rows: int) -> str | None:
    """What the quasi-identifiers give away before anything is published."""
    if found is None:
        return None
    lines = [
        f"{found['unique_rows']:,} of {rows:,} rows are unique on the quasi-identifiers",
        f"{found['rows_below_5']:,} rows are in cells of fewer than 5",
    ]
    if found["sharpened"] is not None:
        lines.append(
            f"{found['sharpened']:.1%} of the rows are in a cell that alone gives a value of at most "
            f"{found['rho1']} of the table more than that"
        )
    return bullets("quasi-identifiers, before anything is published", lines)
