"""Measure the first table of docs/compare.md: every method on UCI Adult at the bound 1/4, foreseen and observed.

    python -m benchmarks.compared [--from compare.json] [--render]

It runs what the page shows, `sfumato compare ... --seed 1`, and keeps figures in `benchmarks/results/compared.json`;
`--from` takes the JSON file that such a run wrote beside its report, `--render` only writes the page. The page has the
lines `<!-- compared -->` and `<!-- end of compared -->`; a test holds it to the figures.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.reports.text import READER_NAMES, reached

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compare.md"
FIGURES = Path(__file__).parent / "results" / "compared.json"
BLOCK = re.compile(r"(?<=<!-- compared -->\n).*?(?=<!-- end of compared -->)", re.DOTALL)
QUASI = "age,workclass,education,marital_status,race,sex,native_country,hours_per_week,income"
ROLES = sf.Roles(sensitive="occupation", quasi=tuple(QUASI.split(",")), rest="drop")
BOUND, RELEASES, SEED = "1/4", 5, 1
KEPT = ("variant", "rank", "parameters", "expected_error", "observed_error", "coverage", "bound_width")
RANKS = ("proved", "conditional", "baseline")


def kept(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs of a comparison, variants beside their methods."""
    entries = []
    for entry in document["methods"]:
        for part in (entry, *entry.get("variants", ())):
            readers = [{key: reader[key] for key in ("reader", "held", "posterior")} for reader in part["readers"]]
            own = {"method": entry["method"], "trust": part.get("trust", entry["trust"])}
            entries.append(own | {key: part.get(key) for key in KEPT} | {"readers": readers})
    about = {key: document[key] for key in ("bound", "rows", "rho1", "releases")}
    return about | {"questions": document["workload"]["questions"], "methods": entries}


def figures() -> dict[str, Any]:
    """What was measured last."""
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """One row per method or variant."""
    yield "| method | trust | rank | expected, % | observed, % | covered, % | " + " | ".join(READER_NAMES) + " |"
    yield "|" + "---|" * (6 + len(READER_NAMES))
    for entry in sorted(found["methods"], key=lambda m: RANKS.index(m["trust"])):
        title = f"`{entry['method']}`" + (f", {entry['variant']}" if entry["variant"] else "")
        covered = "" if entry["coverage"] is None else f"{entry['coverage']:.1%}".rstrip("%")
        posteriors = [
            f"**{reached(r['posterior'])}**" if r["held"] else reached(r["posterior"]) for r in entry["readers"]
        ]
        cells = (title, entry["trust"], entry["rank"] or "", *_errors(entry), covered, *posteriors)
        yield "| " + " | ".join(map(str, cells)) + " |"


def _errors(entry: Mapping[str, Any]) -> tuple[str, str]:
    if not entry["expected_error"]:
        return "bounds only", f"width {next(iter(entry['bound_width'].values())):.0%} of the answer".replace("%", " %")
    expected, observed = (
        " / ".join(f"{error:.1%}".rstrip("%") for error in entry[which].values())
        for which in ("expected_error", "observed_error")
    )
    return expected, observed


def rewritten() -> str:
    """The page with its table as the figures have it."""
    text = "\n" + "\n".join(lines(figures())) + "\n\n"
    return BLOCK.sub(lambda _: text, PAGE.read_text(encoding="utf-8"))


def main() -> None:
    """Measure, keep, render."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="given")
    parser.add_argument("--render", action="store_true")
    arguments = parser.parse_args()
    if not arguments.render:
        if arguments.given:
            document = json.loads(Path(arguments.given).read_text(encoding="utf-8"))
        else:
            document = sf.compare(
                sf.datasets.adult(), roles=ROLES, bound=BOUND, releases=RELEASES, seed=SEED, null_as_value=True
            )
        FIGURES.write_text(json.dumps(kept(document), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(rewritten(), encoding="utf-8")


if __name__ == "__main__":
    main()
