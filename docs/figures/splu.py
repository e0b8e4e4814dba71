"""Draws the figures of docs/methods/splu.md: `python docs/figures/splu.py` writes SVG files beside itself."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import altair as alt
import numpy as np

from sfumato.methods.splu import amplification, error_probability, large_sum_utility

HERE = Path(__file__).parent
SIZES = (3, 5, 10)


def save(chart: alt.LayerChart | alt.Chart, name: str) -> None:
    chart.properties(width=420, height=240).configure_axis(grid=True, gridOpacity=0.4).save(HERE / f"splu-{name}.svg")


def chebyshev(size: int, epsilon: Fraction, miss: Fraction) -> int:
    """A quick valid bound on T_f: ceil((1 - 1/size) / (eps^2 T_E)), in exact fractions."""
    return math.ceil((1 - Fraction(1, size)) / (epsilon**2 * miss))


def hidden() -> None:
    """Chance that a small total is published with more than 30 % error, against the true total: a sawtooth."""
    f = np.arange(1, 61)
    rows = [
        {"f": int(k), "p": float(p), "gamma": str(size)}
        for size in SIZES
        for k, p in zip(f, error_probability(f, size, Fraction(3, 10)), strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("f:Q", title="true total f"),
        y=alt.Y("p:Q", title="Pr[relative error above 30 %]", scale=alt.Scale(domain=[0, 0.9])),
        color=alt.Color("gamma:N", title="gamma", sort=[str(s) for s in SIZES]),
    )
    save(base.mark_line(point={"size": 14}, strokeWidth=1.2), "hidden")


def kept() -> None:
    """Least total that is kept within 10 %, against the chance of missing it: exact, Chebyshev, and as printed."""
    rows = []
    for miss in np.geomspace(0.002, 0.3, 25):
        t = Fraction(float(miss)).limit_denominator(10_000)
        exact, quick = large_sum_utility(5, Fraction(1, 10), t), chebyshev(5, Fraction(1, 10), t)
        printed = (1 / (5 * 0.01 * float(t))) ** 0.5
        rows += [
            {"miss": float(t), "t_f": float(v), "kind": kind}
            for kind, v in (("exact", exact), ("Chebyshev (valid)", quick), ("as printed (false)", printed))
        ]
    chart = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("miss:Q", title="T_E: chance of an error of 10 % or more", scale=alt.Scale(type="log")),
        y=alt.Y("t_f:Q", title="T_f: totals from here on are kept", scale=alt.Scale(type="log")),
        color=alt.Color("kind:N", title=None, sort=["Chebyshev (valid)", "exact", "as printed (false)"]),
    )
    save(chart.mark_line(strokeWidth=1.6), "kept")


def frequent() -> None:
    """Growth of the noise of conditioned counts with the frequency of the value: why frequent values answer worst."""
    rows = []
    for size in SIZES:
        for share in np.linspace(0, 0.98 / size, 80):
            counts = np.array([round(share * 10**6), 10**6 - round(share * 10**6)])
            rows.append({"share": float(share), "a": float(amplification(counts, size)[0]), "gamma": str(size)})
    chart = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("share:Q", title="share of the rows that have the value", axis=alt.Axis(format="%")),
        y=alt.Y("a:Q", title="amplification of the noise", scale=alt.Scale(type="log")),
        color=alt.Color("gamma:N", title="gamma", sort=[str(s) for s in SIZES]),
    )
    save(chart.mark_line(strokeWidth=1.6), "frequent")


if __name__ == "__main__":
    hidden()
    kept()
    frequent()
