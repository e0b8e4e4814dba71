"""A fit for people: a coefficient plot with intervals, a table for notebooks, a page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from .answer_html import answer_table
from .charts import altair
from .page import page
from .text import number, p_text, percent

WIDTH = 520
HEADER = ("term", "estimate", "std err", "of the noise", "interval", "p")


def coefficient_plot(document: Mapping[str, Any]) -> Any:
    """An altair chart: one line per coefficient, a dot at the estimate, the interval around it, 0 as a rule."""
    alt = altair()
    rows = [r for r in document["rows"] if r["low"] is not None]
    data = alt.Data(values=[{k: r[k] for k in ("term", "estimate", "low", "high", "se", "p")} for r in rows])
    order = [r["term"] for r in rows]
    y = alt.Y("term:N", sort=order, title=None, axis=alt.Axis(labelLimit=320))
    tips = ["term:N", *(alt.Tooltip(f"{name}:Q", format=".4g") for name in ("estimate", "se", "low", "high", "p"))]
    zero = alt.Chart(alt.Data(values=[{"x": 0}])).mark_rule(strokeDash=[4, 3], color="#888").encode(x="x:Q")
    base = alt.Chart(data)
    bars = base.mark_rule(strokeWidth=2).encode(
        y=y, x=alt.X("low:Q", title=f"coefficient, {percent(document['level'])} interval"), x2="high:Q", tooltip=tips
    )
    dots = base.mark_circle(size=70, opacity=1).encode(y=y, x="estimate:Q", tooltip=tips)
    return (zero + bars + dots).properties(width=WIDTH, height=alt.Step(24), title=document["formula"])


def fit_page(document: Mapping[str, Any], errors: str) -> str:
    """The page of a fit; `errors` says whose errors are shown."""
    rows = [
        [
            r["term"],
            number(r["estimate"]),
            number(r["se"]),
            "-" if not r["se"] or r["se_table"] is None else f"{min(1.0, (r['se_table'] / r['se']) ** 2):.0%}",
            f"{number(r['low'])} .. {number(r['high'])}",
            p_text(r["p"]),
        ]
        for r in document["rows"]
    ]
    intro = [
        f"models {document['models']}; {document['nobs']:,.0f} rows, {document['cells']:,} cells",
        errors,
        *document["caveats"],
    ]
    note = "Of a table that nobody but its publisher holds: coefficients describe groups of people, never one of them."
    return page(
        title=f"{document['family']} fit of {document['formula']}",
        intro=intro,
        figures={"coefficients": coefficient_plot(document)},
        tables=[{"title": "Coefficients", "header": HEADER, "rows": rows, "note": note}],
        private=False,
    )


def fit_table(document: Mapping[str, Any], errors: str) -> str:
    """An HTML table for notebooks, each interval as a bar; nothing loaded from anywhere."""
    rows = [
        {"term": r["term"], "coef": r["estimate"], "coef_low": r["low"], "coef_high": r["high"], "p": p_text(r["p"])}
        for r in document["rows"]
        if r["p"] is not None
    ]
    table = answer_table(
        ("term", "coef", "p"),
        rows,
        aggregates=("coef",),
        method=document["method"],
        level=document["level"],
        kind="confidence",
        caveats=document["caveats"],
    )
    head = f"{escape(document['family'])} fit of {escape(document['formula'])}; models {escape(document['models'])}"
    return f"<p>{head}<br>{escape(errors)}</p>{table}"
