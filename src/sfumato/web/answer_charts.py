"""Charts of answers as Vega-Lite specifications; the kind follows from the question.

Counts and sums are bars from zero with their interval; averages and shares are dots with their interval; along numbers
or dates the dots stand over an axis; ranges without an estimate are drawn as ranges. Colours come from the page's
style sheet, so the specification names roles ("mark", "interval"), not colours.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from ..answering.answer import Answer
from ..model.names import ERROR_ENDS

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
