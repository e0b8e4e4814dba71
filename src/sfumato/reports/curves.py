"""Pages with curves: HTML that loads nothing from anywhere. Needs the `report` extra."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ..errors import SpecError
from ..model.public import Curve
from .report_files import MARK

WIDTH, HEIGHT = 460, 240  # pixels of one chart


def svg(curve: Curve) -> str:
    """The curve as SVG."""
    try:
        import altair as alt
        import vl_convert
    except ImportError:
        raise SpecError("--report needs altair and vl-convert; install sfumato[report]", field="report") from None
    points = [{"x": x, "y": y, "series": name} for name, line in curve.series.items() for x, y in line]
    scale = alt.Scale(type="log") if curve.log else alt.Scale(zero=True)
    chart = (
        alt.Chart(alt.Data(values=points), title=curve.title, width=WIDTH, height=HEIGHT)
        .mark_line(point={"size": 14}, strokeWidth=1.3)
        .encode(
            x=alt.X("x:Q", title=curve.x, scale=scale),
            y=alt.Y("y:Q", title=curve.y, scale=scale),
            color=alt.Color("series:N", title=None, sort=list(curve.series)),
        )
    )
    return str(vl_convert.vegalite_to_svg(chart.to_dict()))


def plan_page(report: dict[str, Any], text: str, curves: Sequence[Curve]) -> str:
    """`sfumato plan` as a page: its text, and the mechanism's curves."""
    title = f"Plan: {report['method']}, {report['rows']:,} rows"
    charts = "".join(f"<figure>{svg(curve)}</figure>" for curve in curves)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{MARK}<title>{escape(title)}</title>'
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}pre{white-space:pre-wrap}</style>"
        f"<h1>{escape(title)}</h1><p>For the custodian: it holds facts about the table.</p>"
        f"{charts}<pre>{escape(text)}</pre></html>\n"
    )
