"""Answers, fits and tests as pages show them: cells of text, intervals on a common scale, charts."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from ..analysis.association import Independence
from ..analysis.fit import Fit
from ..answering.answer import Answer
from ..model.names import ERROR_ENDS
from ..reports.text import number, p_text

# An answer as a page shows it: cells of text, and every interval as places on a common scale.


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
    kind = answer.to_arrow().schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


# Charts of answers as Vega-Lite specifications; the kind follows from the question.
#
# Counts and sums are bars from zero with their interval; averages and shares are dots with their interval; along
# numbers or dates the dots stand over an axis; ranges without an estimate are drawn as ranges. Colours come from the
# page's style sheet, so the specification names roles ("mark", "interval"), not colours.


MOST_BARS = 60
MOST_COLOURS = 6
MOST_PARTS = 3  # aggregates drawn one above the other
MOST_STEPS = 20  # numbers along an axis that are better shown as categories when there are colours
STEP = 24  # pixels of a bar with its gap


def chart(answer: Answer, sql: str) -> dict[str, Any] | None:
    """The specification, or None where a chart would say less than the table."""
    table = answer.to_arrow()
    errors = {f"{name}{end}" for name in answer.aggregates for end in ERROR_ENDS}
    keys = [name for name in table.column_names if name not in errors and name not in answer.aggregates]
    if not answer.aggregates or table.num_rows == 0 or len(keys) > 2 or (len(keys) == 0 and len(answer.aggregates) < 2):
        return None
    means = averages(sql)
    rows = answer.told_rows()
    if len(keys) == 0:
        return _apart(answer, rows[0])
    along = _axis(table, keys[0]) if len(set(table[keys[0]].to_pylist())) > 2 else None
    colour = keys[1] if len(keys) == 2 else None
    if colour is not None and len(set(table[colour].to_pylist())) > MOST_COLOURS:
        if len(set(table[keys[0]].to_pylist())) > MOST_COLOURS or along:
            return None
        keys, colour, along = [keys[1], keys[0]], keys[0], _axis(table, keys[1])
    if colour is not None and along and len(set(table[keys[0]].to_pylist())) <= MOST_STEPS:
        along = None  # side by side, so that no interval hides another
    drawn = rows if along else rows[: MOST_BARS * (1 if colour is None else MOST_COLOURS)]
    parts = []
    for name in answer.aggregates[:MOST_PARTS]:
        data = [_point(row, name, keys[0], colour) for row in drawn]
        layers = _along() if along else _across(bars=name not in means, coloured=colour is not None)
        parts.append(_titled(layers, data, name, keys[0], colour, along))
    spec = parts[0] if len(parts) == 1 else {"vconcat": parts}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": _description(answer, keys, colour),
        **spec,
        "usermeta": {"left_out": len(rows) - len(drawn)},
    }


def averages(sql: str) -> set[str]:
    """Names of the aggregates that are averages or shares: their zero is no natural base of a bar."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except sqlglot.errors.SqlglotError:
        return set()
    return {
        part.alias_or_name or part.sql(dialect="duckdb").lower()
        for part in (tree.expressions if isinstance(tree, exp.Select) else [])
        if part.find(exp.Avg, exp.Quantile, exp.Median, exp.Min, exp.Max)
    }


def _point(row: dict[str, Any], name: str, key: str, colour: str | None) -> dict[str, Any]:
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    point = {"key": _plain(row[key]), "value": value, "low": low, "high": high}
    point["said"] = "exact" if low == high else f"{_short(low)} to {_short(high)}"
    return point if colour is None else point | {"by": str(_plain(row[colour]))}


def _across(*, bars: bool, coloured: bool) -> list[dict[str, Any]]:
    """Layers with categories down the page."""
    offset: dict[str, Any] = {"yOffset": {"field": "by"}} if coloured else {}
    x = {"field": "value", "type": "quantitative", "scale": {"zero": bars}}
    span = {"x": {"field": "low", "type": "quantitative", "scale": {"zero": bars}}, "x2": {"field": "high"}}
    rule = {"mark": {"type": "rule", "style": "interval"}, "encoding": span | offset}
    dot = {"mark": {"type": "point", "style": "dot", "filled": True}, "encoding": {"x": x} | offset}
    if not bars:
        return [rule, dot]
    bar = {"mark": {"type": "bar", "style": "shade" if coloured else "mark"}, "encoding": {"x": x} | offset}
    return [bar, rule]


def _along() -> list[dict[str, Any]]:
    """Layers with numbers or dates along the page."""
    y = {"field": "value", "type": "quantitative", "scale": {"zero": True}}
    span = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
    return [
        {"mark": {"type": "rule", "style": "interval"}, "encoding": span},
        {"mark": {"type": "line", "style": "thread"}, "encoding": {"y": y}},
        {"mark": {"type": "point", "style": "dot", "filled": True}, "encoding": {"y": y}},
    ]


def _titled(
    layers: list[dict[str, Any]],
    data: list[dict[str, Any]],
    name: str,
    key: str,
    colour: str | None,
    along: str | None,
) -> dict[str, Any]:
    """A complete part: data, the axis of the key, colours, what the pointer shows."""
    order = list(dict.fromkeys(point["key"] for point in data))
    tips = [{"field": "key", "title": key}, {"field": "value", "title": name, "format": ",.4~g"}]
    tips += [{"field": "said", "title": "range"}]
    shared: dict[str, Any] = {"tooltip": tips + ([{"field": "by", "title": colour}] if colour else [])}
    if colour is not None:
        shared["color"] = {"field": "by", "type": "nominal", "title": colour, "legend": {"orient": "top"}}
    if along:
        shared["x"] = {"field": "key", "type": along, "title": key, "scale": {"zero": False}}
        size: dict[str, Any] = {"width": "container", "height": 260}
        measure = "y"
    else:
        shared["y"] = {"field": "key", "type": "nominal", "sort": order, "title": None}
        inner = len({point["by"] for point in data}) if colour else 1
        size = {"width": "container", "height": max(60, len(order) * (STEP + 12 * (inner - 1)))}
        measure = "x"
    for layer in layers:
        if measure in layer["encoding"]:
            layer["encoding"][measure] |= {"title": name, "axis": {"format": ",.4~g"}}
    return {"data": {"values": data}, "encoding": shared, "layer": layers, **size}


def _apart(answer: Answer, row: dict[str, Any]) -> dict[str, Any] | None:
    """Several aggregates without groups: the same kind of number, one under the other."""
    points = [_point(row | {"__what__": name}, name, "__what__", None) for name in answer.aggregates[:MOST_BARS]]
    known = [abs(p["value"]) for p in points if p["value"]]
    if not known or max(known) > 100 * min(known):
        return None  # on one scale the small ones would vanish
    return dots(points, "", "aggregate", "Each aggregate with its range")


def dots(points: list[dict[str, Any]], name: str, key: str, description: str) -> dict[str, Any]:
    """Numbers of one kind with their ranges, one under the other; a point has key, value, low and high."""
    data = [{"said": f"{_short(point['low'])} to {_short(point['high'])}"} | point for point in points]
    part = _titled(_across(bars=False, coloured=False), data, name, key, None, None)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": description,
        **part,
        "usermeta": {"left_out": 0},
    }


def _axis(table: pa.Table, key: str) -> str | None:
    """The type of an axis along numbers or dates; None for categories."""
    kind = table.schema.field(key).type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "temporal"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "quantitative" if table[key].null_count == 0 else None
    return None


def _description(answer: Answer, keys: list[str], colour: str | None) -> str:
    what = ", ".join(answer.aggregates[:MOST_PARTS])
    by = f"{keys[0]}, coloured by {colour}" if colour else keys[0]
    return f"{what} by {by}, each with its range; the table beside this chart holds the same numbers"


def _plain(value: Any) -> Any:
    if value is None:
        return "missing"
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)


def _short(x: float | None) -> str:
    return "unknown" if x is None else f"{x:,.4g}" if abs(x) < 1000 else f"{x:,.0f}"


# Fits and tests as the page shows them.


MOST_DRAWN = 60  # coefficients; the table has all
INTERCEPT = "Intercept"


def present_fit(fit: Fit) -> dict[str, Any]:
    """What the template of a fit needs."""
    document = fit.to_dict()
    rows = [
        {"": row["estimate"], "_se": row["se"], "_low": row["low"], "_high": row["high"]} for row in document["rows"]
    ]
    ends = scale([(row["_low"], row["_high"]) if row["_low"] is not None else None for row in rows])
    drawn = [
        {"key": r["term"], "value": r["estimate"], "low": r["low"], "high": r["high"]}
        for r in document["rows"]
        if r["low"] is not None and (r["term"] != INTERCEPT or len(rows) == 1)  # its scale is not that of the others
    ][:MOST_DRAWN]
    return {
        "kind": "fit",
        "title": f"{document['family']} fit of {document['formula']}",
        "standfirst": f"models {document['models']}; {document['nobs']:,.0f} rows; release by {document['method']}",
        "interval": f"{100 * document['level']:.10g} % interval",
        "names": [row["term"] for row in document["rows"]],
        "cells": [cell(row, "", ends) for row in rows],
        "p": ["" if row["p"] is None else p_text(row["p"]) for row in document["rows"]],
        "chart": dots(
            drawn, "coefficient", "term", "Coefficients with their intervals; the table below holds the same numbers"
        )
        if drawn
        else None,
        "caveats": document["caveats"],
        "text": fit.summary(),
    }


def present_test(test: Independence) -> dict[str, Any]:
    """What the template of a test needs."""
    strength = "not told by this release"
    if test.high is not None:
        ends = (
            f"{number(test.low)} to {number(test.high)}" if test.cramers_v is not None else f"up to {number(test.high)}"
        )
        strength = ends if test.cramers_v is None else f"{number(test.cramers_v)}, {ends}"
    facts = [
        (f"chi-square, {test.df} degrees of freedom", number(test.statistic)),
        ("p", p_text(test.pvalue)),
        (f"Cramer's V, {100 * test.level:.10g} % interval", strength),
    ]
    if test.odds_ratio is not None:
        ratio = test.odds_ratio
        facts.append(("odds ratio", f"{number(ratio.value)}, {number(ratio.low)} to {number(ratio.high)}"))
    return {
        "kind": "test",
        "title": f"Do {test.x} and {test.y} go together?",
        "standfirst": test.test,
        "facts": facts,
        "caveats": list(test.caveats),
        "text": str(test),
    }
