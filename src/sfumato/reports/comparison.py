"""The report of a comparison: for the custodian with everything, for the public without anything private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import charts
from .choice_text import band_label, entries, percent
from .page import page
from .places import check_places, write_html, write_twin

# What may leave the house: texts, parameters and what follows from them. Errors, reasons with limits, sizes and numbers
# of questions are computed from the original table and stay.
PUBLIC_KEYS = (
    "method",
    "variant",
    "label",
    "trust",
    "applicable",
    "parameters",
    "guarantee",
    "retention",
    "gives_away",
)

REBUILT = ("kl", "chi_square", "euclid", "association")


def public_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison without anything that was computed from true counts."""

    def clean(entry: Mapping[str, Any]) -> dict[str, Any]:
        found = {k: entry[k] for k in PUBLIC_KEYS if k in entry}
        if "variants" in entry:
            found["variants"] = [clean(v) for v in entry["variants"] if v["applicable"]]
        return found

    kept = {k: document[k] for k in ("bound", "rho1", "sensitive", "quasi") if k in document}
    return kept | {"public": True, "methods": [clean(e) for e in document["methods"] if e["applicable"]]}


def write_comparison(
    document: Mapping[str, Any],
    *,
    custodian: str | None = None,
    public: str | None = None,
    charts: str | None = None,
    force: bool = False,
) -> Iterator[Path]:
    """Paths as they are written: HTML with its JSON twin, and charts as PNG and SVG."""
    for target, content in ((custodian, document), (public, public_document(document))):
        if target is not None:
            yield write_html(target, comparison_html(content), force=force)
            yield write_twin(target, content, force=force)
    if charts is not None:
        check_places({}, charts=charts, force=force)
        folder = Path(charts)
        for name, chart in drawn(document).items():
            for kind in ("svg", "png"):
                path = folder / f"{name}.{kind}"
                chart.save(str(path), **({"scale_factor": 2} if kind == "png" else {}))
                yield path


def drawn(document: Mapping[str, Any]) -> dict[str, Any]:
    """The charts that the document has numbers for."""
    made = {
        "errors": charts.errors_by_band(document),
        "frontier": charts.frontier(document),
        "foreseen": charts.predicted_against_observed(document),
        "scatter": charts.scatter(document),
        "retention": charts.retention(document),
    }
    return {name: chart for name, chart in made.items() if chart is not None}


def comparison_html(document: Mapping[str, Any]) -> str:
    """One HTML file that needs no network."""
    public = bool(document.get("public"))
    sensitive, bound = ", ".join(document["sensitive"]), document["bound"]
    intro = [f"Every method publishes {sensitive} at the same bound on the posterior: {bound}."]
    if public:
        intro.append(
            "This version holds nothing that was computed from the original table beyond what a release states."
        )
    else:
        workload = document["workload"]
        intro.append(
            f"{document['rows']:,} rows; {workload['questions']:,} questions ({workload['name']}); "
            f"{document['releases']} releases each. For the custodian only: it compares with the truth."
        )
    tables = [] if public else [_errors(document), _costs(document)]
    tables.append(_gives(document))
    left_out = [
        {"label": e["label"], "reason": e.get("reason") or ""} for e in entries(document) if not e["applicable"]
    ]
    return page(
        title=f"{sensitive} at {bound}: methods compared",
        intro=intro,
        figures=drawn(document),
        tables=tables,
        guarantees=[e for e in entries(document) if e["applicable"] and e.get("guarantee")],
        left_out=left_out,
        private=not public,
    )


def _errors(document: Mapping[str, Any]) -> dict[str, Any]:
    bands = list(document["workload"]["bands"])
    header = ["method", "trust", "rank"]
    header += [f"expected {band_label(b)}" for b in bands] + [f"observed {band_label(b)}" for b in bands] + ["covered"]
    rows = []
    for e in entries(document):
        if e["applicable"]:
            row = [e["label"], e["trust"], e.get("rank") or ""]
            row += [percent((e.get("expected_error") or {}).get(b)) for b in bands]
            row += [percent((e.get("observed_error") or {}).get(b)) for b in bands]
            rows.append([*row, percent(e.get("coverage"))])
    note = (
        "Mean of |estimate - true| / true over the questions that hold at least that share of the rows. Ranked within "
        "a trust label: a conditional release is often more accurate because it gives more away."
    )
    return {"title": "Errors", "header": header, "rows": rows, "note": note}


def _costs(document: Mapping[str, Any]) -> dict[str, Any]:
    header = ["method", "KL", "chi-square", "Euclid", "association", "bounds", "publish s", "questions s", "MB"]
    rows = []
    for e in entries(document):
        if e["applicable"]:
            rebuilt, seconds = e.get("reconstruction") or {}, e.get("seconds") or {}
            width = next(iter((e.get("bound_width") or {"": None}).values()))
            rows.append(
                [
                    e["label"],
                    *(f"{rebuilt[k]:.4f}" if k in rebuilt else "-" for k in REBUILT),
                    percent(width),
                    f"{seconds['publish']:.2f}" if seconds else "-",
                    f"{seconds['workload']:.2f}" if seconds else "-",
                    f"{e['bytes'] / 1e6:.2f}" if e.get("bytes") else "-",
                ]
            )
    reference = document.get("reference")
    note = "Bounds: mean width of certain bounds over the true answer."
    if reference:
        note = (
            f"Distances of the estimated table of {', '.join(document['sensitive'])} by {reference['column']} from the "
            f"true one, whose association (uncertainty coefficient) is {reference['association']:.4f}. " + note
        )
    return {"title": "Reconstruction, time and size", "header": header, "rows": rows, "note": note}


def _gives(document: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "survives_corruption": "other records known",
        "hides_group": "group hidden",
        "every_predicate": "every predicate",
    }
    rows = []
    for e in entries(document):
        given = e.get("gives_away")
        if given and e["applicable"]:
            rows.append([e["label"], e["trust"], *("yes" if given.get(k) else "no" for k in names), given["why"]])
    note = "Does the bound survive a reader who knows other records; is a record's group hidden; any predicate covered?"
    return {
        "title": "What each gives away at this bound",
        "header": ["method", "trust", *names.values(), "why"],
        "rows": rows,
        "note": note,
    }
