"""`sfumato compare` and `sfumato recommend` for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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


def render_comparison(document: Mapping[str, Any]) -> str:
    """The comparison as a table, what each method gives away, and who is left out."""
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
            beyond = "" if entry.get("holds_bound", True) else "; the bound is not held"
            notes.append(f"{entry['label']}: one value fills up to {entry['largest_share']:.0%} of a class{beyond}")
        if "gives_away" in entry:
            notes.append(f"{entry['label']}: {entry['gives_away']['why']}")
    first = (
        f"every method at the bound {document['bound']} on the posterior; {document['rows']:,} rows, "
        f"{workload['questions']:,} questions ({workload['name']}), {document['releases']} releases each"
    )
    meaning = (
        "error: mean of |estimate - true| / true over the questions of at least that share of the rows; "
        "covered: share of 95% intervals that hold the truth; bounds: mean width of certain bounds over the true answer"
    )
    parts = [first, table(header, rows), meaning, bullets("gives away at this bound", notes)]
    if document.get("unprotected"):
        parts.append(
            f"not protected: {document['unprotected']} sensitive values, more frequent than rho1 = {document['rho1']}"
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
        bullets("why", document["why"]),
    ]
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
