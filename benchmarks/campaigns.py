"""`make audit`: kills, faults and fuzzers, what was tried and what went wrong.

    python -m benchmarks.campaigns [--short] [--share 0.1] [--only SQL,bundles] [--record docs/campaigns.md]

The full form tries every step of the write phase and more than 200,000 inputs; --share does a part of them. --record
writes the figures into a page; campaigns that did not run keep theirs.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks import fault_campaign, fuzz_campaign

WHAT = {
    "kills and faults": "killed, ENOSPC or EIO at every step of writing, every method, with and without --force",
    "short disks": "files that may not grow beyond 64 bytes to 200 kB",
    "changing sources": "nine changes in three gaps between the passes, every method",
    "SQL": "random words and questions with words changed, asked of every method",
    "options": "odd values for the options of every method",
    "bundles": "bundles with mutated files, mutated JSON and digests made anew: opened, verified and asked",
    "tables": "mutated CSV and Parquet files, read and planned with every method",
}
HEAD = (
    """# Kills, faults and fuzzers

What `make audit` tried and what went wrong, written by `python -m benchmarks.campaigns --record docs/campaigns.md`.
Wrong would be: a half release, a release or a file of others lost, a message that does not say what happened, a cell in
a message, an error that is not one of `sfumato.errors`.

"""
    + "\n".join(f"- {name}: {what}" for name, what in WHAT.items())
    + """

| campaign | tried | wrong | seconds |
|---|---|---|---|"""
)
FULL = {"SQL": 100_000, "options": 100_000, "bundles": 4_000, "tables": 1_500}


def campaigns(share: float) -> dict[str, Callable[[], Counter[str]]]:
    """Name -> campaign, at a share of its full size."""
    stride = max(1, round(1 / share))

    def size(name: str) -> int:
        return max(5, int(FULL[name] * share))

    def rng(name: str) -> random.Random:
        return random.Random(f"20141 {name}")  # of its own: the same inputs whichever campaigns run

    return {
        "kills and faults": lambda: fault_campaign.kills_and_faults(stride),
        "short disks": lambda: fault_campaign.short_disks(max(3, int(40 * share))),
        "changing sources": fault_campaign.changing_sources,
        "SQL": lambda: fuzz_campaign.sql(size("SQL"), rng("SQL")),
        "options": lambda: fuzz_campaign.options(size("options"), rng("options")),
        "bundles": lambda: fuzz_campaign.bundles(size("bundles"), rng("bundles")),
        "tables": lambda: fuzz_campaign.tables(size("tables"), rng("tables")),
    }


def main(arguments: list[str]) -> int:
    """Exit code: 0 where nothing went wrong."""
    parser = argparse.ArgumentParser(prog="campaigns")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--record", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as own:  # killed runs leave scratch behind; not among everybody's
        os.environ["TMPDIR"] = tempfile.tempdir = own
        return _run(given)


def _run(given: argparse.Namespace) -> int:
    """All campaigns, one after the other; those that fork come first, before any engine runs here."""
    fault_campaign.warm()
    figures = {} if given.record is None else recorded(given.record)
    wrong = 0
    for name, campaign in campaigns(0.002 if given.short else given.share).items():
        if given.only and name not in given.only.split(","):
            continue
        start = time.perf_counter()
        found = campaign()
        bad = sum(n for k, n in found.items() if k.startswith("!"))
        figures[name] = (found.total() - bad, bad, round(time.perf_counter() - start))
        wrong += bad
        print(f"{name}: {figures[name][0]:,} tried, {bad} went wrong, {figures[name][2]} s", flush=True)
        for line, times in found.items():
            if line.startswith("!"):
                print(f"  {line} ({times})", flush=True)
    print(summary(figures))
    if given.record is not None:
        given.record.write_text(page(figures), encoding="utf-8")
    return int(wrong > 0)


Figures = dict[str, tuple[int, int, int]]  # campaign -> (tried, went wrong, seconds)


def summary(figures: Figures) -> str:
    """One line over all campaigns."""
    faults = sum(tried for name, (tried, _, _) in figures.items() if name not in FULL)
    inputs = sum(tried for name, (tried, _, _) in figures.items() if name in FULL)
    wrong = sum(bad for _, bad, _ in figures.values())
    return f"{faults:,} kills and faults, {inputs:,} fuzzed inputs; half releases, lost, leaked or uncaught: {wrong}"


def page(figures: Figures) -> str:
    """The page of the figures, as Markdown."""
    rows = [f"| {name} | {tried:,} | {bad} | {took} |" for name, (tried, bad, took) in _in_order(figures)]
    return "\n".join((HEAD, *rows, "", summary(figures) + ".", ""))


def _in_order(figures: Figures) -> list[tuple[str, tuple[int, int, int]]]:
    return [(name, figures[name]) for name in WHAT if name in figures]


def recorded(file: Path) -> Figures:
    """The figures of a page that is there."""
    rows = [line.strip("| ").split(" | ") for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    numbers = [(row[0], *(int(cell.replace(",", "")) for cell in row[1:])) for row in rows if row[0] in WHAT]
    return {name: (tried, bad, took) for name, tried, bad, took in numbers}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
