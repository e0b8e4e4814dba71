"""What a reproduction is made of: published numbers beside ours, with one line on every difference."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from sfumato.reports.text import table

PAPERS = ("pp", "splu", "distribution", "rr", "channels")
DOCS = Path(__file__).parents[1] / "docs"
REPRODUCED, TREND, DIFFERS, PAPER = "reproduced", "trend holds", "differs", "paper is wrong"
CLOSE, NO_DATA, LOST = "close on stand-in data", "needs SFUMATO_DATA", "not comparable"
VERDICTS = (REPRODUCED, TREND, CLOSE, DIFFERS, PAPER, LOST, NO_DATA)
WORDS = {
    "pp": "The census extract of the paper is not public. Its stand-in is `census_like_acs2018` (295,243 rows, 50 "
    "occupations, built to the same columns); where even that is missing, UCI Adult. The paper's PP is run here as "
    '`SmallDomain(mode="paper", objective="bound")` in tables 2 and 3, and as `small-domain` (strict) in the figures. '
    "Errors are those foreseen from the plans, over a query pool of 30 conditions; "
    "[small-domain](../methods/small-domain.md) has the full pool with observed errors.",
    "splu": "The paper's T_f formula divides a variance by n twice, so its figure 4 is not reproduced but corrected. "
    "Errors are those foreseen from plans on the census stand-in; [splu](../methods/splu.md) has the observed ones.",
    "distribution": "The numbers of the figures are lost in the copy of the paper at hand: their trends are checked. "
    "UCI Adult is in the package: the 1,427 rows with a capital loss are the paper's own. "
    "[target-distribution](../methods/target-distribution.md) has the curves.",
    "channels": "No table is needed: variances follow from channels. Gamma is e^epsilon. The optimiser of McKenna, "
    "Maity, Mazumdar and Miklau (2020) prints the two published numbers; the theorems are on the page on "
    "[set channels](../explanation/set-channels.md).",
    "rr": "UCI Adult, the 30,162 complete training rows that the published tables were computed on. The association of "
    "quasi-identifiers is estimated here from two-way tables by the plain inverse, which is nearly unbiased; the "
    "published rows lie lower, as a clipped full table does. Rows that differ say which is nearer to the original.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One number of a table or one trend of a figure."""

    item: str  # "Table 2, L = 6, UP"
    published: str
    ours: str
    verdict: str
    note: str = ""


def number(
    item: str,
    published: float,
    ours: float,
    *,
    within: float,
    unit: str = "",
    digits: int = 3,
    note: str = "",
    standin: bool = False,
) -> Finding:
    """A published number: reproduced where ours lies within `within` of it, "close" where the data are others."""
    hit = abs(ours - published) <= within * (1 + 1e-9)
    verdict = (CLOSE if standin else REPRODUCED) if hit else DIFFERS
    return Finding(
        item=item, published=f"{published:g}{unit}", ours=f"{ours:.{digits}g}{unit}", verdict=verdict, note=note
    )


def trend(item: str, published: str, ours: str, *, holds: bool, note: str = "") -> Finding:
    """A trend that a figure shows."""
    return Finding(item=item, published=published, ours=ours, verdict=TREND if holds else DIFFERS, note=note)


def rising(values: Sequence[float], *, slack: float = 0.0) -> bool:
    """Whether each value is at least the one before, up to a relative slack."""
    return all(b >= a * (1 - slack) for a, b in pairwise(values))


def data_file(name: str) -> Path | None:
    """A larger table of the folder SFUMATO_DATA, or None."""
    folder = os.environ.get("SFUMATO_DATA")
    path = Path(folder) / name if folder else None
    return path if path is not None and path.exists() else None


def missing(item: str, published: str, name: str) -> Finding:
    """The finding where a table is not there."""
    return Finding(item=item, published=published, ours="-", verdict=NO_DATA, note=f"put {name} into that folder")


def percents(values: Sequence[float]) -> str:
    """Shares in a row."""
    return " ".join(f"{100 * v:.3g} %" for v in values)


def reproduce(paper: str, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """The findings of one paper as a document; `say` hears of every finding as it is made."""
    module = import_module(f"papers.{paper}")
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


def page(document: dict[str, Any], *, figure: bool) -> str:
    """The page of docs/reproduce."""
    paper = document["paper"]
    counts = ", ".join(f"{n} {verdict}" for verdict, n in document["counts"].items())
    lines = [f"# {document['title']}: published and ours", "", WORDS[paper], ""]
    lines += ["```sh", f"SFUMATO_DATA=folder python -m papers {paper}", "```", ""]
    lines += [f"{len(document['findings'])} findings: {counts}.", ""]
    if figure:
        lines += [f"![Every published number against ours, on logarithmic axes](../figures/reproduce-{paper}.svg)", ""]
    return "\n".join([*lines, markdown(document), ""])


def write_page(document: dict[str, Any]) -> Path:
    """Write the page and, where there are numbers enough, its figure; returns the page's path."""
    chart = published_against_ours(document)
    if chart is not None:
        chart.save(str(DOCS / "figures" / f"reproduce-{document['paper']}.svg"))
    path = DOCS / "reproduce" / f"{document['paper']}.md"
    path.write_text(page(document, figure=chart is not None), encoding="utf-8")
    return path


def published_against_ours(document: Mapping[str, Any]) -> Any | None:
    """One point per finding that is a single number on both sides; on the line ours is the published one."""
    from sfumato.reports.charts import altair

    alt = altair()
    rows = []
    for finding in document["findings"]:
        published, ours = (_single(finding[name]) for name in ("published", "ours"))
        if published and ours:
            rows.append({"published": published, "ours": ours, "item": finding["item"], "verdict": finding["verdict"]})
    if len(rows) < 3:
        return None
    log = alt.Scale(type="log")
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(size=60, filled=True, opacity=0.7)
        .encode(
            x=alt.X("published:Q", scale=log),
            y=alt.Y("ours:Q", scale=log),
            color=alt.Color("verdict:N", title=None, legend=alt.Legend(labelLimit=260)),
            tooltip=["item:N", "published:Q", "ours:Q", "verdict:N"],
        )
    )
    ends = [min(min(r["published"], r["ours"]) for r in rows), max(max(r["published"], r["ours"]) for r in rows)]
    line = alt.Chart(alt.Data(values=[{"a": x} for x in ends])).mark_line(color="#999", strokeDash=[4, 4])
    line = line.encode(x=alt.X("a:Q", scale=log, title="published"), y=alt.Y("a:Q", scale=log, title="ours"))
    return (line + points).properties(width=480, height=340, title="Published numbers and ours")


def _single(text: str) -> float | None:
    """The number that the text is, with or without a unit."""
    try:
        return float(text.removesuffix(" %"))
    except ValueError:
        return None
