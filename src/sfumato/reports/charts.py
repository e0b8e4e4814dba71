"""Charts of a comparison, as altair charts; every number comes from the comparison's document."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..errors import SfumatoError
from .documents import band_label, entries

WIDTH, HEIGHT = 640, 300


def report_package(name: str) -> Any:
    """A package that only reports need, or how to get it."""
    try:
        return import_module(name)
    except ImportError:
        raise SfumatoError('reports need more packages: pip install "sfumato[report]"') from None


def altair() -> Any:
    """The altair module."""
    alt = report_package("altair")
    alt.data_transformers.disable_max_rows()
    return alt


def errors_by_band(document: Mapping[str, Any]) -> Any | None:
    """Observed error of every method, by the least share of the rows a question holds; expected beside it as a tick."""
    alt = altair()
    rows = []
    for entry in entries(document):
        for kind in ("observed", "expected"):
            for band, error in (entry.get(f"{kind}_error") or {}).items():
                if entry["applicable"] and error is not None:
                    rows.append(
                        {
                            "method": entry["label"],
                            "trust": entry["trust"],
                            "questions": band_label(band),
                            "error": error,
                            "kind": kind,
                        }
                    )
    if not rows:
        return None
    base = alt.Chart(_values(rows)).encode(
        y=alt.Y("method:N", sort=_order(rows), title=None, axis=alt.Axis(labelLimit=260)),
        x=alt.X("error:Q", title="mean relative error (log scale)", scale=alt.Scale(type="log"), axis=_percent(alt)),
        tooltip=["method:N", "trust:N", "questions:N", "kind:N", alt.Tooltip("error:Q", format=".1%")],
    )
    points = base.transform_filter("datum.kind == 'observed'").mark_circle(size=90).encode(color="questions:N")
    ticks = (
        base.transform_filter("datum.kind == 'expected'")
        .mark_tick(thickness=2, size=16)
        .encode(color=alt.Color("questions:N", title="questions of"))
    )
    return (ticks + points).properties(
        width=WIDTH, height=alt.Step(26), title="Observed error (dots), expected (ticks)"
    )


def predicted_against_observed(document: Mapping[str, Any]) -> Any | None:
    """One point per method and band; on the line the plan foresaw what happened."""
    alt = altair()
    rows = [
        {"method": e["label"], "expected": x, "observed": e["observed_error"][b], "questions": band_label(b)}
        for e in entries(document)
        if e["applicable"] and e.get("expected_error") and e.get("observed_error")
        for b, x in e["expected_error"].items()
        if x and e["observed_error"].get(b)
    ]
    if not rows:
        return None
    log = alt.Scale(type="log")
    points = (
        alt.Chart(_values(rows))
        .mark_point(size=70, filled=True, opacity=0.75)
        .encode(
            x=alt.X("expected:Q", scale=log, axis=_percent(alt), title="error expected from the plan"),
            y=alt.Y("observed:Q", scale=log, axis=_percent(alt), title="error observed"),
            color=alt.Color("method:N", title=None, legend=alt.Legend(labelLimit=260)),
            shape="questions:N",
            tooltip=[
                "method:N",
                "questions:N",
                alt.Tooltip("expected:Q", format=".2%"),
                alt.Tooltip("observed:Q", format=".2%"),
            ],
        )
    )
    ends = [min(min(r["expected"], r["observed"]) for r in rows), max(max(r["expected"], r["observed"]) for r in rows)]
    line = alt.Chart(_values([{"a": x} for x in ends])).mark_line(color="#999", strokeDash=[4, 4])
    line = line.encode(x=alt.X("a:Q", scale=log), y=alt.Y("a:Q", scale=log))
    return (line + points).properties(width=WIDTH - 160, height=HEIGHT + 40, title="What the plan foresaw")


def scatter(document: Mapping[str, Any]) -> Any | None:
    """Estimates against true answers of one release per method. Private."""
    alt = altair()
    rows = [
        {"method": e["label"], "true": p["true"], "estimate": p["estimate"]}
        for e in entries(document)
        for p in e.get("points", ())
    ]
    if not rows:
        return None
    methods = list(dict.fromkeys(r["method"] for r in rows))
    pick = alt.selection_point(
        fields=["method"], bind=alt.binding_select(options=methods, name="method "), value=methods[0]
    )
    top = max(r["true"] for r in rows)
    points = (
        alt.Chart(_values(rows))
        .transform_filter(pick)
        .mark_circle(size=36, opacity=0.6)
        .encode(
            x=alt.X("true:Q", title="true count"),
            y=alt.Y("estimate:Q", title="estimate"),
            tooltip=["method:N", alt.Tooltip("true:Q", format=",.0f"), alt.Tooltip("estimate:Q", format=",.0f")],
        )
        .add_params(pick)
    )
    line = alt.Chart(_values([{"a": 0.0}, {"a": top}])).mark_line(color="#999", strokeDash=[4, 4])
    line = line.encode(x="a:Q", y="a:Q")
    return (line + points).properties(width=WIDTH, height=HEIGHT + 60, title="Estimates against the truth, one release")


def retention(document: Mapping[str, Any]) -> Any | None:
    """The share of sensitive values that are kept as they are."""
    alt = altair()
    rows = [
        {"method": e["label"], "retention": e["retention"]}
        for e in entries(document)
        if e["applicable"] and e.get("retention") is not None
    ]
    if not rows:
        return None
    return (
        alt.Chart(_values(rows))
        .mark_bar()
        .encode(
            y=alt.Y("method:N", sort=[r["method"] for r in rows], title=None, axis=alt.Axis(labelLimit=260)),
            x=alt.X("retention:Q", title="values kept as they are", axis=_percent(alt)),
            tooltip=["method:N", alt.Tooltip("retention:Q", format=".1%")],
        )
        .properties(width=WIDTH, height=alt.Step(26), title="Retention at the bound")
    )


def frontier(document: Mapping[str, Any]) -> Any | None:
    """Error against the bound, one line per method; needs a document with several bounds ("frontier")."""
    alt = altair()
    rows = [
        {"method": p["method"], "bound": f"1/{round(1 / p['bound'])}", "tau": p["bound"], "error": p["error"]}
        for p in document.get("frontier", ())
        if p["error"] is not None
    ]
    if not rows:
        return None
    order = [r["bound"] for r in sorted(rows, key=lambda r: -r["tau"])]
    return (
        alt.Chart(_values(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("bound:O", sort=list(dict.fromkeys(order)), title="bound on the posterior (stronger to the right)"),
            y=alt.Y("error:Q", scale=alt.Scale(type="log"), axis=_percent(alt), title="expected error (log scale)"),
            color=alt.Color("method:N", title=None, legend=alt.Legend(labelLimit=260)),
            tooltip=["method:N", "bound:N", alt.Tooltip("error:Q", format=".1%")],
        )
        .properties(width=WIDTH - 160, height=HEIGHT, title="Risk against utility")
    )


def _values(rows: list[dict[str, Any]]) -> Any:
    return altair().Data(values=rows)


def _percent(alt: Any) -> Any:
    return alt.Axis(format=".3~%")


def _order(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(r["method"] for r in rows))
