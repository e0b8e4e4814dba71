"""The papers' tables and figures again: `sfumato reproduce pp|splu|distribution|rr|channels`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from typing import Any

from ..errors import SpecError
from ..reports.text import table
from .findings import VERDICTS

PAPERS = ("pp", "splu", "distribution", "rr", "channels")


def reproduce(paper: str, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """The document of `sfumato reproduce --json`; `say` hears of every finding as it is made."""
    if paper not in PAPERS:
        raise SpecError(f'there is no paper "{paper}"; papers: {", ".join(PAPERS)}', field="paper")
    module = import_module(f".{paper}_paper", __name__)
    findings = []
    for finding in module.findings():
        findings.append(asdict(finding))
        if say is not None:
            say(finding.item)
    counts = Counter(f["verdict"] for f in findings)
    return {
        "paper": paper,
        "title": module.TITLE,
        "counts": {v: counts[v] for v in VERDICTS if counts[v]},
        "findings": findings,
    }


def render(document: dict[str, Any]) -> str:
    """The findings as a table for a terminal."""
    rows = [[f["item"], f["published"], f["ours"], f["verdict"]] for f in document["findings"]]
    notes = [f"{f['item']}: {f['note']}" for f in document["findings"] if f["note"]]
    counts = ", ".join(f"{n} {verdict}" for verdict, n in document["counts"].items())
    parts = [document["title"], table(["item", "published", "ours", "verdict"], rows), counts]
    return "\n\n".join([*parts, "\n".join(notes)])


def markdown(document: dict[str, Any]) -> str:
    """The findings as a Markdown table, for the documentation."""
    lines = ["| item | published | ours | verdict | note |", "|---|---|---|---|---|"]
    for f in document["findings"]:
        cells = (f[k].replace("|", "\\|") for k in ("item", "published", "ours", "verdict", "note"))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


__all__ = ["PAPERS", "markdown", "render", "reproduce"]
