"""Measure coverage by method and question, keep the figures, and write the tables of the documentation.

    python -m benchmarks.record [--releases 200] [--method splu] [--only models] [--target population]
                                [--question "Cramer's V"] [--render]

The figures are kept in `benchmarks/results/coverage.json`, with the number of releases of each; what is measured again
replaces what was. `--render` only writes the pages. A page has the lines `<!-- coverage: NAME -->` and `<!-- end of
coverage -->`; a test holds the pages to the figures.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import coverage, inference

ROOT = Path(__file__).parents[1]
FIGURES = Path(__file__).parent / "results" / "coverage.json"
PAGES = tuple(ROOT / "docs" / "explanation" / f"{name}.md" for name in ("intervals", "inference"))
BLOCK = re.compile(r"(<!-- coverage: (\w+) -->\n).*?(<!-- end of coverage -->)", re.DOTALL)
Figures = dict[str, dict[str, dict[str, Any]]]  # part -> "method / question" or "method / target / question" -> figures


def figures() -> Figures:
    """What was measured last."""
    found: Figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def of_intervals(found: dict[str, dict[str, Any]]) -> str:
    """Questions by method: pooled coverage and that of the number held least often."""
    methods = [m for m in coverage.METHODS if any(key.startswith(f"{m} / ") for key in found)]
    releases = {m: max(f["releases"] for key, f in found.items() if key.startswith(f"{m} / ")) for m in methods}
    lines = [
        "| question | " + " | ".join(f"{m} ({releases[m]})" for m in methods) + " |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for name, question in coverage.QUESTIONS.items():
        at_once = question.simultaneous or question.chosen
        cells = []
        for method in methods:
            seen = found.get(f"{method} / {name}")
            if seen is None:
                cells.append("")
            elif at_once:
                cells.append(f"{seen['together']} of {seen['releases']}")
            else:
                cells.append(f"{_share(seen['pooled'], 3)}, {_share(seen['worst'], 2)}")
        lines.append(f"| {name}{', all held' if at_once else ''} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def of_models(found: dict[str, dict[str, Any]]) -> str:
    """Every finding on a line."""
    findings = [inference.Finding(**seen) for seen in found.values()]
    order = list(inference.METHODS)
    findings.sort(key=lambda f: (f.target != "table", order.index(f.method)))
    return "\n".join([inference.HEADER, *(finding.line() for finding in findings)]) + "\n"


def _share(number: float, digits: int) -> str:
    return f"{number:.{digits}f}".removeprefix("0")


TABLES = {"intervals": of_intervals, "models": of_models}
TARGETS = ("table", "population")


def rewritten(page: Path) -> str:
    """The page with its tables as the figures have them."""
    found = figures()
    return BLOCK.sub(
        lambda block: block[1] + TABLES[block[2]](found[block[2]]) + block[3], page.read_text(encoding="utf-8")
    )


def keep(part: str, key: str, numbers: dict[str, Any]) -> None:
    """Put one finding into the file."""
    found = figures()
    found[part][key] = numbers
    FIGURES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def measure(
    releases: int, methods: list[str], parts: tuple[str, ...], targets: tuple[str, ...], questions: tuple[str, ...]
) -> None:
    """Measure and keep, question by question; `questions` are those of the models."""
    if "models" in parts:
        for method in (m for m in inference.METHODS if not methods or m in methods):
            for target in targets:
                for finding in inference.measure(method, target, releases, inference.ROWS, questions):
                    keep("models", f"{method} / {target} / {finding.question}", asdict(finding))
    if "intervals" in parts:
        for method in (m for m in coverage.METHODS if not methods or m in methods):
            for name, seen in coverage.measure(method, list(coverage.QUESTIONS), releases):
                numbers = {"pooled": seen.pooled, "worst": seen.worst()[0], "together": seen.together()}
                keep("intervals", f"{method} / {name}", numbers | {"releases": releases})


def main() -> None:
    """Measure what is asked for, then write the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--only", choices=tuple(TABLES))
    parser.add_argument("--target", choices=TARGETS, help="of the models; both if left out")
    parser.add_argument("--question", choices=inference.QUESTIONS, help="one of the models; all if left out")
    parser.add_argument("--render", action="store_true")
    asked = parser.parse_args()
    if not asked.render:
        parts, targets = (asked.only,) if asked.only else tuple(TABLES), (asked.target,) if asked.target else TARGETS
        questions = (asked.question,) if asked.question else inference.QUESTIONS
        measure(asked.releases, asked.method, parts, targets, questions)
    for page in PAGES:
        page.write_text(rewritten(page), encoding="utf-8")


if __name__ == "__main__":
    main()
