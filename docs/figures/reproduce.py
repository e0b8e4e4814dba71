"""Writes docs/reproduce/*.md and their figures: SFUMATO_DATA=folder python docs/figures/reproduce.py [paper ...]"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sfumato.papers import PAPERS, markdown, reproduce
from sfumato.reports.charts import published_against_ours

DOCS = Path(__file__).parents[1]
WORDS = {
    "pp": "The census extract of the paper is not public. Its stand-in is `census_like_acs2018` (295,243 rows, 50 "
    "occupations, built to the same columns); where even that is missing, UCI Adult. The paper's PP is run here as "
    "`small-domain --mode paper --objective bound` in tables 2 and 3, and as `small-domain` (strict) in the figures. "
    "Errors are those foreseen from the plans, over a query pool of 30 conditions; "
    "[small-domain](../methods/small-domain.md) has the full pool with observed errors.",
    "splu": "The paper's T_f formula divides a variance by n twice, so its figure 4 is not reproduced but corrected. "
    "Errors are those foreseen from plans on the census stand-in; [splu](../methods/splu.md) has the observed ones.",
    "distribution": "The numbers of the figures are lost in the copy of the paper at hand: their trends are checked. "
    "UCI Adult is in the package: the 1,427 rows with a capital loss are the paper's own. "
    "[target-distribution](../methods/target-distribution.md) has the curves.",
    "channels": "No table is needed: variances follow from channels. Gamma is e^epsilon. The optimiser of McKenna, Maity, "
    "Mazumdar and Miklau (2020) prints the two published numbers; the theorems are on the page on "
    "[set channels](../explanation/set-channels.md).",
    "rr": "UCI Adult, the 30,162 complete training rows that the published tables were computed on. The association of "
    "quasi-identifiers is estimated here from two-way tables by the plain inverse, which is nearly unbiased; the "
    "published rows lie lower, as a clipped full table does. Rows that differ say which is nearer to the original.",
}


def page(document: dict[str, Any], figure: bool) -> str:
    """One page."""
    paper = document["paper"]
    counts = ", ".join(f"{n} {verdict}" for verdict, n in document["counts"].items())
    lines = [f"# {document['title']}: published and ours", "", WORDS[paper], ""]
    lines += ["```sh", f"SFUMATO_DATA=folder sfumato reproduce {paper} --report {paper}.html", "```", ""]
    lines += [f"{len(document['findings'])} findings: {counts}.", ""]
    if figure:
        lines += [f"![Every published number against ours, on logarithmic axes](../figures/reproduce-{paper}.svg)", ""]
    return "\n".join([*lines, markdown(document), ""])


def main() -> None:
    """Make the pages asked for, from documents given as JSON files or computed."""
    for name in sys.argv[1:] or PAPERS:
        made = json.loads(Path(name).read_text()) if name.endswith(".json") else reproduce(name)
        chart = published_against_ours(made)
        if chart is not None:
            chart.save(str(DOCS / "figures" / f"reproduce-{made['paper']}.svg"))
        (DOCS / "reproduce" / f"{made['paper']}.md").write_text(page(made, chart is not None), encoding="utf-8")


if __name__ == "__main__":
    main()
