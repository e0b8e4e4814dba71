"""The public report of a release: what it promises and holds, from the release alone, as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .page import page
from .readers_text import name_of, reached, verdict


def release_page(document: Mapping[str, Any], *, name: str, verified: Sequence[str] = ()) -> str:
    """The page; `document` is that of `sfumato inspect --json`, `verified` the lines of `sfumato verify`."""
    guarantee = document["guarantee"]
    columns = [
        [c["name"], c["role"], c["type"], f"{len(c['domain'])}" if c.get("domain") is not None else ""]
        for c in document["columns"]
    ]
    tables = []
    if guarantee.get("readers"):
        readers = [[name_of(r), verdict(r["held"]), reached(r["posterior"]), r["why"]] for r in guarantee["readers"]]
        tables.append(
            {
                "title": "How far readers get",
                "header": ["reader", "held", "posterior", "why"],
                "rows": readers,
                "note": "As far as the published parameters tell: a dash where the table decides.",
            }
        )
    tables.append(
        {"title": "Columns", "header": ["column", "role", "type", "declared values"], "rows": columns, "note": ""}
    )
    files = [[file, f"{facts['rows']:,}", facts["sha256"]] for file, facts in document["files"].items()]
    tables.append({"title": "Files", "header": ["file", "rows", "SHA-256"], "rows": files, "note": ""})
    if verified:
        checked = [[line] for line in verified]
        note = "By sfumato verify, from the release alone; repeat it on your own copy."
        tables.append({"title": "Verified", "header": ["what holds"], "rows": checked, "note": note})
    return page(
        title=f"{name}: what is published",
        intro=[
            f"{document['rows']:,} rows by {document['method']} ({guarantee['trust']}).",
            "This page holds nothing but what the release states about itself.",
        ],
        figures={},
        tables=tables,
        guarantees=[{"label": document["method"], "trust": guarantee["trust"], "guarantee": guarantee}],
        private=False,
    )
