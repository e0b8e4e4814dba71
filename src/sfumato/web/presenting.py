"""An answer as a page shows it: cells of text, and every interval as places on a common scale."""

from __future__ import annotations

from typing import Any

from ..answering.answer import Answer
from ..model.names import ERROR_ENDS
from ..reports.text import number

MOST_ROWS, MOST_CELLS = 500, 4000  # on a page, each cell with its drawing; the rest is in the downloads
WIDTH, MARGIN = 200.0, 5.0  # of the drawn interval, in its own units


def present(answer: Answer, sql: str) -> dict[str, Any]:
    """What the template of an answer needs; plain values only."""
    rows = answer.told_rows()
    names = answer.to_arrow().column_names
    errors = {name + end for name in answer.aggregates for end in ERROR_ENDS}
    keys = [name for name in names if name not in errors and name not in answer.aggregates]
    scales = {name: scale([_reach(row, name) for row in rows]) for name in answer.aggregates}
    plain = [_is_number(answer, name) for name in keys]
    most = max(1, min(MOST_ROWS, MOST_CELLS // max(1, len(answer.aggregates))))
    return {
        "sql": sql,
        "method": answer.method,
        "level": f"{100 * answer.level:.10g} %",
        "kind": answer.kind,
        "interval": interval_name(answer),
        "caveats": list(answer.caveats),
        "keys": [{"name": name, "number": numeric} for name, numeric in zip(keys, plain, strict=True)],
        "aggregates": list(answer.aggregates),
        "has_bounds": [f"{name}_min" in names for name in answer.aggregates],
        "rows": [
            {
                "keys": ["missing" if row[name] is None else _text(row[name]) for name in keys],
                "nulls": [row[name] is None for name in keys],
                "cells": [cell(row, name, scales[name]) for name in answer.aggregates],
            }
            for row in rows[:most]
        ],
        "total": len(rows),
        "more": max(0, len(rows) - most),
    }


def interval_name(answer: Answer) -> str:
    """What the two ends of an answer's ranges are."""
    if answer.kind == "exact":
        return "exact"
    return "certain bounds" if answer.kind == "bounds" else f"{100 * answer.level:.10g} % interval"


def cell(row: dict[str, Any], name: str, ends: tuple[float, float]) -> dict[str, Any]:
    """One aggregate of one row: numbers as text, and where to draw them."""
    value, se, low, high = (row[f"{name}{end}"] for end in ("", "_se", "_low", "_high"))
    minimum, maximum = row.get(f"{name}_min"), row.get(f"{name}_max")
    exact = value is not None and se == 0
    unsure = low is not None and high is not None and low <= 0 <= high and low < high and not exact
    spots = (("low", low), ("high", high), ("min", minimum), ("max", maximum))
    place = {end: at(float(x), ends) for end, x in spots if x is not None and _finite(x)}
    if value is not None and low is not None and high is not None:
        place["value"] = at(min(max(value, low), high), ends)
    return {
        "value": number(value),
        "se": number(se),
        "low": number(low),
        "high": number(high),
        "min": number(minimum),
        "max": number(maximum),
        "exact": exact,
        "bounds": value is None and low is not None,
        "may_be_zero": unsure,
        "at": place,
        "zero": at(0.0, ends) if ends[0] < 0 else None,
    }


def scale(reaches: list[tuple[float, float] | None]) -> tuple[float, float]:
    """The common scale of a column: from 0 or below to its largest end."""
    ends = [x for reach in reaches if reach is not None for x in reach]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    return (low, high if high > low else low + 1.0)


def at(x: float, ends: tuple[float, float]) -> float:
    """The place of a number on the scale, in units of the drawing."""
    return round(MARGIN + (x - ends[0]) / (ends[1] - ends[0]) * (WIDTH - 2 * MARGIN), 1)


def _reach(row: dict[str, Any], name: str) -> tuple[float, float] | None:
    found = [
        float(row[f"{name}{end}"]) for end in ("_low", "_high", "_min", "_max") if _finite(row.get(f"{name}{end}"))
    ]
    return (min(found), max(found)) if found else None


def _finite(x: Any) -> bool:
    return isinstance(x, int | float) and abs(x) < float("inf")


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _is_number(answer: Answer, name: str) -> bool:
    import pyarrow as pa

    kind = answer.to_arrow().schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
