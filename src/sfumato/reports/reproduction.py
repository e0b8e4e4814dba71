"""The report of a reproduction: every finding with its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .charts import published_against_ours, verdicts
from .page import page
from .report_files import write_html, write_twin


def write_reproduction(document: Mapping[str, Any], target: str, *, force: bool = False) -> Iterator[Path]:
    """Paths as they are written: HTML and its JSON twin."""
    yield write_html(target, reproduction_html(document), force=force)
    yield write_twin(target, document, force=force)


def reproduction_html(document: Mapping[str, Any]) -> str:
    """One HTML file that needs no network."""
    header = ["item", "published", "ours", "verdict", "note"]
    rows = [[f[name] for name in header] for f in document["findings"]]
    note = "Public tables only: nothing here is private."
    drawn = {"verdicts": verdicts(document), "numbers": published_against_ours(document)}
    return page(
        title=f"{document['title']}: published and ours",
        intro=["Every number of the paper's tables and every trend of its figures, on the closest public data."],
        figures={name: chart for name, chart in drawn.items() if chart is not None},
        tables=[{"title": "Findings", "header": header, "rows": rows, "note": note}],
        private=False,
    )
