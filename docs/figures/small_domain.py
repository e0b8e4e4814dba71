"""Figures of docs/methods/small-domain.md, from the census stand-in's occupation column.

    SFUMATO_DATA=folder python docs/figures/small_domain.py

Writes small-domain-retention.svg and small-domain-error.svg beside this file. Needs the `report` extra.
"""

from __future__ import annotations

import os
import sys
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pyarrow.parquet as pq
import vl_convert

from sfumato.methods.small_domain.plan import Costs, least_variance, partition, value_variance
from sfumato.stats.gamma import keep_probabilities

RHO1 = Fraction(1, 13)
HERE = Path(__file__).parent
COLOURS = {"uniform": "#b0413e", "small-domain": "#3b6a8f", "best possible": "#8a8a8a"}


def occupation() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Counts of the occupations."""
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        sys.exit("set SFUMATO_DATA to the folder that holds census_like_acs2018.parquet")
    codes = pq.read_table(Path(folder) / "census_like_acs2018.parquet", columns=["occupation"])["occupation"]
    return np.unique(codes.to_numpy(), return_counts=True)[1]


def costs_at(level: int, rows: int) -> Costs:
    """The price list of strict plans with rho2 = 1 / level."""
    return Costs(rho1=RHO1, rho2=Fraction(1, level), rows=rows, min_size=1000)


def retention_chart(counts: np.ndarray[Any, np.dtype[np.int64]]) -> alt.LayerChart:
    """Sub-tables side by side: width is the share of records, height the retention; the line is uniform's."""
    costs = costs_at(6, int(counts.sum()))
    plan = partition(counts, costs)
    bars, left = [], 0.0
    for table in sorted(plan.sub_tables, key=lambda t: -t.size):
        share = 100 * table.size / costs.rows
        p = 100 * float(table.keep_probabilities[0])
        bars.append({"left": left, "right": left + share, "p": p, "zero": 0, "values": f"{table.values.size} values"})
        left += share
    flat = 100 * float(keep_probabilities(costs.cap or Fraction(2), counts.size)[0])
    line = [{"x": 0, "y": flat}, {"x": 100, "y": flat}]
    rectangles = (
        alt.Chart(alt.Data(values=bars))
        .mark_rect(fill=COLOURS["small-domain"], stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("left:Q", title="share of the records, %", scale=alt.Scale(domain=[0, 100])),
            x2="right:Q",
            y=alt.Y("zero:Q", title="retention p, %", scale=alt.Scale(domain=[0, 11])),
            y2="p:Q",
        )
    )
    labels = (
        alt.Chart(
            alt.Data(values=[b | {"middle": (b["left"] + b["right"]) / 2} for b in bars if b["right"] - b["left"] > 7])
        )
        .mark_text(dy=-7, fontSize=10, color="#333")
        .encode(x="middle:Q", y="p:Q", text="values:N")
    )
    rule = alt.Chart(alt.Data(values=line)).mark_line(color=COLOURS["uniform"], strokeWidth=2).encode(x="x:Q", y="y:Q")
    note = (
        alt.Chart(alt.Data(values=[{"x": 99, "y": flat, "t": f"uniform, {counts.size} values: {flat:.1f} %"}]))
        .mark_text(align="right", dy=-8, fontSize=11, color="white", fontWeight="bold")
        .encode(x="x:Q", y="y:Q", text="t:N")
    )
    return (rectangles + labels + rule + note).properties(width=560, height=220)


def error_chart(counts: np.ndarray[Any, np.dtype[np.int64]]) -> alt.LayerChart:
    """Root mean square standard error of a value's total against 1 / rho2."""
    points = []
    for level in range(2, 11):
        costs = costs_at(level, int(counts.sum()))
        uniform = costs.rows * float(value_variance(counts.size, float(costs.cap or 2)))
        total = {
            "uniform": uniform,
            "small-domain": partition(counts, costs).total_variance,
            "best possible": least_variance(costs.rows, costs),
        }
        points += [{"level": level, "se": sqrt(v / counts.size), "method": name} for name, v in total.items()]
    colour = alt.Color("method:N", legend=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())))
    dash = alt.StrokeDash(
        "method:N", legend=None, scale=alt.Scale(domain=list(COLOURS), range=[[1, 0], [1, 0], [4, 3]])
    )
    x = alt.X("level:Q", title="1 / rho2", scale=alt.Scale(domain=[2, 10], nice=False), axis=alt.Axis(tickCount=8))
    y = alt.Y(
        "se:Q",
        title="standard error of a total, records",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(values=[100, 300, 1000, 3000, 10000]),
    )
    base = alt.Chart(alt.Data(values=points))
    names = [
        {"level": 7.5, "se": 6800, "method": "uniform", "text": "uniform"},
        {"level": 7.5, "se": 850, "method": "small-domain", "text": "small-domain"},
        {"level": 7.5, "se": 560, "method": "best possible", "text": "best possible (dashed)"},
    ]
    written = alt.Chart(alt.Data(values=names)).mark_text(fontSize=12, fontWeight="bold")
    return (
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
        + base.transform_filter("datum.method != 'best possible'")
        .mark_point(filled=True, size=40)
        .encode(x=x, y=y, color=colour)
        + written.encode(x=x, y=y, color=colour, text="text:N")
    ).properties(width=480, height=240)


if __name__ == "__main__":
    true_counts = occupation()
    for name, chart in (("retention", retention_chart(true_counts)), ("error", error_chart(true_counts))):
        svg = vl_convert.vegalite_to_svg(chart.to_json())
        (HERE / f"small-domain-{name}.svg").write_text(svg, encoding="utf-8")
