"""Measure what docs/choosing.md shows: `compare` on three real tables at one bound.

    SFUMATO_DATA=folder python -m benchmarks.choosing [--only adult] [--render]

The figures are kept in `benchmarks/results/choosing.json`; what is measured again replaces what was. `--render` only
writes the page. The page has the lines `<!-- measured -->` and `<!-- end of measured -->`; a test holds it to the
figures. Adult is bundled; the others are read from the folder that SFUMATO_DATA names.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sfumato as sf

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "choosing.md"
FIGURES = Path(__file__).parent / "results" / "choosing.json"
BLOCK = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end of measured -->)", re.DOTALL)
BOUND, RELEASES, SEED = "1/3", 2, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table and its roles."""

    title: str
    roles: sf.Roles
    file: str | None = None  # None: the bundled table
    null_as_value: bool = False

    def source(self) -> Any:
        """The table."""
        return sf.datasets.adult() if self.file is None else Path(os.environ["SFUMATO_DATA"]) / self.file


CASES = {
    "adult": Case(
        title="Adult: occupation by age, sex, education",
        roles=sf.Roles(sensitive="occupation", quasi=("age", "sex", "education"), rest="drop"),
        null_as_value=True,
    ),
    "diabetes130": Case(
        title="Diabetes 130: days in hospital by age, gender, admission type; one visit of each patient",
        roles=sf.Roles(
            sensitive="time_in_hospital",
            quasi=("age", "gender", "admission_type_id"),
            rest="drop",
            person="patient_nbr",
            max_rows_per_person=1,
        ),
        file="diabetes130.parquet",
    ),
    "census": Case(
        title="ACS 2018: occupation by age, gender, education, race",
        roles=sf.Roles(sensitive="occupation", quasi=("age", "gender", "education", "race"), rest="drop"),
        file="census_like_acs2018.parquet",
    ),
}


def measured(name: str) -> dict[str, Any]:
    """What the page needs of one comparison."""
    case = CASES[name]
    document = sf.compare(
        case.source(),
        roles=case.roles,
        bound=BOUND,
        releases=RELEASES,
        seed=SEED,
        null_as_value=case.null_as_value,
        progress=lambda _, done, of: print(f"{time.strftime('%H:%M:%S')} {name}: {done} of {of}", flush=True),
    )
    methods = {}
    for entry in document["methods"]:
        held = [r["reader"] for r in entry["readers"] if r["held"]]
        error = entry.get("observed_error")
        methods[entry["method"]] = {
            "trust": entry["trust"],
            "held": held,
            "error": next(iter(error.values())) if error else None,
            "reason": entry.get("reason"),
        }
    return {"rows": document["rows"], "rho1": document["rho1"], "releases": RELEASES, "methods": methods}


def figures() -> dict[str, dict[str, Any]]:
    """What was measured last."""
    found: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def lines(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One row per method: trust, readers held on every table, error on each."""
    tables = [name for name in CASES if name in found]
    for name in tables:
        yield f"- **{CASES[name].title}**: {found[name]['rows']:,} rows, rho1 = {found[name]['rho1']}"
    yield ""
    yield "| method | trust | readers held | " + " | ".join(CASES[n].title.partition(":")[0] for n in tables) + " |"
    yield "|---|---|---|" + "---|" * len(tables)
    names = {method: None for name in tables for method in found[name]["methods"]}
    for method in sorted(names, key=lambda m: _order(m, found)):
        own = [found[name]["methods"].get(method) for name in tables]
        held = [set(o["held"]) for o in own if o and not o["reason"]]
        common = [r for r in next(o["held"] for o in own if o and not o["reason"]) if all(r in h for h in held)]
        trust = next(o["trust"] for o in own if o)
        yield f"| `{method}` | {trust} | {', '.join(common) or 'none'} | " + " | ".join(_cell(o) for o in own) + " |"


def _order(method: str, found: dict[str, dict[str, Any]]) -> tuple[int, float]:
    own = [table["methods"].get(method) for table in found.values()]
    trust = next(o["trust"] for o in own if o)
    errors = [o["error"] for o in own if o and o["error"] is not None]
    return ("proved", "conditional", "baseline").index(trust), sum(errors) / len(errors) if errors else float("inf")


def _cell(entry: dict[str, Any] | None) -> str:
    if entry is None or entry["reason"]:
        return "not applicable"
    return "bounds only" if entry["error"] is None else f"{entry['error']:.1%}".replace("%", " %")


def rewritten() -> str:
    """The page with its table as the figures have it."""
    text = "\n" + "\n".join(lines(figures())) + "\n\n"
    return BLOCK.sub(lambda _: text, PAGE.read_text(encoding="utf-8"))


def main() -> None:
    """Measure, keep, render."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(CASES))
    parser.add_argument("--render", action="store_true")
    arguments = parser.parse_args()
    found = figures() if FIGURES.exists() else {}
    if not arguments.render:
        for name in [arguments.only] if arguments.only else CASES:
            found[name] = measured(name)
            ordered = {name: found[name] for name in CASES if name in found}
            FIGURES.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    if PAGE.exists():
        PAGE.write_text(rewritten(), encoding="utf-8")


if __name__ == "__main__":
    main()
