"""`sfumato compare` and `sfumato recommend` for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .readers_text import READER_NAMES, reached, render_readers, render_unprotected
from .text import bullets, table

ORDER = ("proved", "conditional", "baseline")


def entries(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every method and variant with a "label", best trust first, then by rank; variants after their method."""
    methods = sorted(
        document["methods"],
        key=lambda m: (not m["applicable"], ORDER.index(m["trust"]), m.get("rank") or 99),
    )
    for method in methods:
        yield method | {"label": method["method"]}
        for variant in method.get("variants", ()):
            yield {"trust": method["trust"]} | variant | {"label": f"{method['method']}, {variant['variant']}"}


def opening(document: Mapping[str, Any]) -> str:
    """The first sentence: which entries are equal, and which are only listed."""
    able = [e for e in entries(document) if e["applicable"] and e.get("readers")]
    equal = [e["label"] for e in able if e["holds_bound"]]
    others = [e["label"] for e in able if not e["holds_bound"]]
    text = (
        f"At the bound {document['bound']} on what a reader reaches who knows the histogram of "
        f"{', '.join(document['sensitive'])} and sees all that is published about a record: "
        f"{'; '.join(equal) or 'none'}."
    )
    return text + (f" Listed, but above it: {'; '.join(others)}." if others else "")


def posteriors(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """(header, rows): the posterior that each reader reaches, by method; a star where it is held to the bound."""
    rows = []
    for e in entries(document):
        if e["applicable"] and e.get("readers"):
            cells = [reached(r["posterior"]) + ("*" if r["held"] else "") for r in e["readers"]]
            rows.append([e["label"], e["trust"], *cells])
    return ["method", "trust", *READER_NAMES], rows


def render_posteriors(document: Mapping[str, Any]) -> str:
    """The same as text."""
    what = f"the largest posterior of each reader; * held to {document['bound']}"
    return f"{what}\n{table(*posteriors(document))}"


def render_comparison(document: Mapping[str, Any]) -> str:
    """The comparison as a table, how far each reader gets, and who is left out."""
    workload, bands = document["workload"], list(document["workload"]["bands"])
    header = ["method", "trust", "rank", *(f"expected {band_label(b)}" for b in bands)]
    header += [*(f"observed {band_label(b)}" for b in bands), "covered", "bounds", "seconds", "MB"]
    rows, left_out, notes = [], [], []
    for entry in entries(document):
        if not entry["applicable"]:
            left_out.append(f"{entry['label']}: {entry['reason']}")
            continue
        cells = [entry["label"], entry["trust"], str(entry.get("rank") or "-")]
        cells += [percent((entry.get("expected_error") or {}).get(b)) for b in bands]
        cells += [percent((entry.get("observed_error") or {}).get(b)) for b in bands]
        width = next(iter((entry.get("bound_width") or {"": None}).values()))
        seconds = entry.get("seconds") or {}
        cells += [percent(entry.get("coverage")), percent(width)]
        cells += [f"{seconds['publish']:.2f}" if seconds else "-", _megabytes(entry.get("bytes"))]
        rows.append(cells)
        if entry.get("largest_share"):
            notes.append(f"{entry['label']}: one value fills up to {entry['largest_share']:.0%} of a class")
    first = (
        f"{opening(document)} {document['rows']:,} rows, {workload['questions']:,} questions ({workload['name']}), "
        f"{document['releases']} releases each."
    )
    meaning = (
        "error: mean of |estimate - true| / true over the questions of at least that share of the rows; "
        "covered: share of 95% intervals that hold the truth; bounds: mean width of certain bounds over the true answer"
    )
    parts = [first, table(header, rows), meaning, render_posteriors(document)]
    if notes:
        parts.append(bullets("classes", notes))
    if document.get("unprotected"):
        parts.append(
            f"not covered: {document['unprotected']} sensitive values, more frequent than rho1 = {document['rho1']}, "
            f"held by {document['unprotected_share']:.0%} of the rows"
        )
    if left_out:
        parts.append(bullets("not applicable", left_out))
    return "\n\n".join(parts)


def render_recommendation(document: Mapping[str, Any]) -> str:
    """Method, parameters, expected error, reasons and the runner-up."""
    bands = "  ".join(f"{band_label(b)} {percent(e)}" for b, e in document["expected_error"].items())
    said = f"sfumato publish SOURCE OUT --sa ... --qi ... {document['command']}"
    parts = [
        f"{document['method']} ({document['trust']}) at the bound {document['bound']}",
        said,
        f"expected error: {bands}",
        render_readers(document["readers"]),
        bullets("why", document["why"]),
    ]
    parts += [f"warning: {line}" for line in document["warnings"]]
    parts += [t for t in (render_unprotected(document.get("unprotected")),) if t]
    parts.append(
        bullets(
            "least error by the readers that are held",
            [
                f"{', '.join(b['held'])}: {b['method']}, {percent(next(iter(b['expected_error'].values())))}"
                for b in document["by_readers"]
            ],
        )
    )
    if document["runner_up"]:
        parts.append(f"runner-up: {document['runner_up']['command']}")
    if document["refused"]:
        parts.append(bullets("not applicable", [f"{r['method']}: {r['reason']}" for r in document["refused"]]))
    return "\n\n".join(parts)


def band_label(name: str) -> str:
    """The name of a band as people read it."""
    return "all" if name == "all" else f">={100 * float(name):g}%"


def percent(value: float | None) -> str:
    """A share as people read it."""
    return "-" if value is None else f"{value:.1%}" if value < 10 else f"{value:.0%}"


def _megabytes(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:.2f}"
