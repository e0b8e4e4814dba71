"""The chart of foreseen errors: one bar a candidate, shortest first; what holds less than asked has another colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

STEP = 30  # height of a bar with its gap
NAMES = {True: "holds what you ask", False: "holds less"}


def foreseen_chart(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A Vega-Lite specification; None where there is nothing to draw. `entries` are sorted as they are to be shown."""
    drawn = [e for e in entries if e["error"] is not None]
    if not drawn:
        return None
    points = [
        {
            "label": e["label"],
            "error": e["error"],
            "said": e["said"],
            "trust": e["trust"],
            "fits": NAMES[e["fits"]],
            "held": ", ".join(e["held"]) or "none",
        }
        for e in drawn
    ]
    tips = [
        {"field": "label", "title": "method"},
        {"field": "said", "title": "expected error"},
        {"field": "trust", "title": "trust"},
        {"field": "held", "title": "readers held"},
    ]
    x = {"field": "error", "type": "quantitative", "title": "expected error of an answer, relative to the true one"}
    return {
        "description": "Expected error of every method for your questions; the table below holds the same numbers",
        "data": {"values": points},
        "height": STEP * len(points),
        "encoding": {
            "y": {"field": "label", "type": "nominal", "sort": [p["label"] for p in points], "title": None}
            | {"axis": {"labelLimit": 300}},
            "tooltip": tips,
        },
        "layer": [
            {
                "mark": {"type": "bar", "cornerRadiusEnd": 2},
                "encoding": {
                    "x": x | {"axis": {"format": "~%"}, "scale": {"zero": True}},
                    "color": {
                        "field": "fits",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": list(NAMES.values())},
                        "legend": {"orient": "top", "labelLimit": 400},
                    },
                },
            },
            {
                "mark": {"type": "text", "style": "said", "align": "left", "dx": 5},
                "encoding": {"x": x, "text": {"field": "said"}},
            },
        ],
    }
