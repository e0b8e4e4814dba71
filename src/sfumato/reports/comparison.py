"""The report of a comparison: for the custodian with everything, for the public without anything private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import charts
from .documents import band_label, entries, opening, posteriors, rows_compared, share_text
from .pages import page
from .report_files import charts_folder, write_html, write_twin

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
)

REBUILT = ("kl", "chi_square", "euclid", "association")


def public_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison without anything that was computed from true counts."""

    def clean(entry: Mapping[str, Any]) -> dict[str, Any]:
        found = {k: entry[k] for k in PUBLIC_KEYS if k in entry}
        if "guarantee" in found:  # what it says of this table follows from true counts
            found["guarantee"] = {k: v for k, v in found["guarantee"].items() if k not in {"readers", "unprotected"}}
        found["readers"] = [{k: r[k] for k in r if k != "rows"} for r in entry.get("public_readers", [])]
        found["holds_bound"] = any(r["reader"] == "histogram" and r["held"] for r in found["readers"])
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
        folder = charts_folder(Path(charts), force=force)
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
    intro = [opening(document)]
    if public:
        intro.append(
            "This version holds nothing that was computed from the original table beyond what a release states."
        )
    else:
        workload = document["workload"]
        intro.append(
            f"{rows_compared(document)}; {workload['questions']:,} questions ({workload['name']}); "
            f"{document['releases']} releases each. For the custodian only: it compares with the truth."
        )
    tables = [] if public else [_errors(document), _costs(document)]
    tables.append(_readers(document))
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
            row += [share_text((e.get("expected_error") or {}).get(b)) for b in bands]
            row += [share_text((e.get("observed_error") or {}).get(b)) for b in bands]
            rows.append([*row, share_text(e.get("coverage"))])
    note = (
        "Mean of |estimate - true| / true over the questions that hold at least that share of the rows. Ranked among "
        "the methods that hold the same readers to the bound: another is often more accurate because it holds fewer."
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
                    share_text(width),
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


def _readers(document: Mapping[str, Any]) -> dict[str, Any]:
    header, rows = posteriors(document)
    note = f"The largest posterior that each reader reaches, rounded up; * held to {document['bound']}."
    if document.get("public"):
        note += " As far as the published parameters tell: a dash where the table decides."
    return {"title": "How far readers get", "header": header, "rows": rows, "note": note}
