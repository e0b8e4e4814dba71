"""Answers as HTML: numbers, and every interval as a bar on a common scale."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ..model.names import ERROR_ENDS
from .text import number, percent

WIDTH = 160  # pixels of the scale


def answer_table(
    names: Sequence[str],
    rows: list[dict[str, Any]],
    *,
    aggregates: Sequence[str],
    method: str,
    level: float,
    kind: str,
    caveats: Sequence[str],
) -> str:
    """An HTML table; no script, no style sheet, nothing loaded from anywhere."""
    errors = {name + end for name in aggregates for end in ERROR_ENDS}
    shown = [name for name in names if name not in errors]
    head = "".join(f"<th>{escape(name)}</th>" + ("<th></th>" if name in aggregates else "") for name in shown)
    scales = {name: _scale(rows, name) for name in aggregates}
    body = ""
    for row in rows:
        cells = ""
        for name in shown:
            value = row[name]
            if name in aggregates:
                cells += (
                    f"<td style='text-align:right'>{_estimate(row, name)}</td><td>{_bar(row, name, scales[name])}</td>"
                )
            else:
                cells += f"<td>{'NULL' if value is None else escape(str(value))}</td>"
        body += f"<tr>{cells}</tr>"
    said = {"bounds": "certain bounds", "exact": "exact"}.get(kind, f"{percent(level)} intervals")
    notes = "".join(f"<p>{escape(caveat)}</p>" for caveat in caveats)
    caption = f"<p>{escape(method)}: {said}</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{caption}{notes}"


def _estimate(row: dict[str, Any], name: str) -> str:
    low, high = number(row[f"{name}_low"]), number(row[f"{name}_high"])
    if row[f"{name}_low"] == row[f"{name}_high"] and row[f"{name}_se"]:  # bounds that meet: the number is known
        return f"<b>{low}</b> <small>exact</small>"
    return f"<b>{number(row[name])}</b> <small>{low} .. {high}</small>"


def _scale(rows: list[dict[str, Any]], name: str) -> tuple[float, float]:
    ends = [row[f"{name}{end}"] for row in rows for end in ("_low", "_high") if row[f"{name}{end}"] is not None]
    return (min([0.0, *ends]), max([1e-12, *ends]))


def _bar(row: dict[str, Any], name: str, scale: tuple[float, float]) -> str:
    """The interval as a line with a dot at the estimate."""
    low, high, value = row[f"{name}_low"], row[f"{name}_high"], row[name]
    if low is None or high is None:
        return ""

    def at(x: float) -> str:
        return f"{(x - scale[0]) / (scale[1] - scale[0]) * (WIDTH - 8) + 4:.1f}"

    dot = "" if value is None else f"<circle cx='{at(min(max(value, low), high))}' cy='8' r='3'/>"
    line = f"<line x1='{at(low)}' x2='{at(high)}' y1='8' y2='8' stroke='currentColor' stroke-width='2'/>"
    return f"<svg width='{WIDTH}' height='16' fill='currentColor' role='img'>{line}{dot}</svg>"
