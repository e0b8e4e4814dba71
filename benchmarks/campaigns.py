"""`make audit`: kills, faults and fuzzers, what was tried and what went wrong.

    python -m benchmarks.campaigns [--short] [--share 0.1] [--only SQL,bundles] [--record docs/campaigns.md]

The full form tries every step of the write phase and more than 200,000 inputs; --share does a part of them. --record
writes the figures into a page after each campaign; those that did not run keep theirs. Ctrl-C or SIGTERM ends the
campaign that runs and keeps what it has tried so far, marked as a part.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import fault_campaign, formula_campaign, fuzz_campaign

WHAT = {
    "kills and faults": "killed, ENOSPC or EIO at every step of writing, every method, with and without --force",
    "short disks": "files that may not grow beyond 64 bytes to 200 kB",
    "changing sources": "nine changes in three gaps between the passes, every method",
    "SQL": "random words and questions with words changed, asked of every method",
    "formulas": "formulas of random and hostile words, read and in part fitted; nothing of them may run",
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

| campaign | tried | wrong | seconds | ran |
|---|---|---|---|---|"""
)
FULL = {"SQL": 100_000, "formulas": 60_000, "options": 100_000, "bundles": 4_000, "tables": 1_500}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one campaign did."""

    tried: int
    wrong: int
    seconds: int
    ran: str  # "whole", or "in part"


Campaign = Callable[[Counter[str]], Counter[str]]  # fills what it is given, so that an end by a signal loses nothing


def campaigns(share: float) -> dict[str, Campaign]:
    """Name -> campaign, at a share of its full size."""
    stride = max(1, round(1 / share))

    def fuzz(name: str, campaign: Callable[..., Counter[str]]) -> Campaign:
        rng = random.Random(f"20141 {name}")  # of its own: the same inputs whichever campaigns run
        return lambda found: campaign(max(5, int(FULL[name] * share)), rng, found)

    return {
        "kills and faults": lambda found: fault_campaign.kills_and_faults(stride, found=found),
        "short disks": lambda found: fault_campaign.short_disks(max(3, int(40 * share)), found),
        "changing sources": fault_campaign.changing_sources,
        "SQL": fuzz("SQL", fuzz_campaign.sql),
        "formulas": fuzz("formulas", formula_campaign.formulas),
        "options": fuzz("options", fuzz_campaign.options),
        "bundles": fuzz("bundles", fuzz_campaign.bundles),
        "tables": fuzz("tables", fuzz_campaign.tables),
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
    chosen = [name for name in WHAT if not given.only or name in given.only.split(",")]
    if set(chosen) - set(FULL):
        fault_campaign.warm()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    figures = {} if given.record is None else recorded(given.record)
    wrong, ended = 0, False
    for name, campaign in campaigns(0.002 if given.short else given.share).items():
        if ended or name not in chosen:
            continue
        start, found = time.perf_counter(), Counter[str]()
        try:
            campaign(found)
        except KeyboardInterrupt:
            ended = True
        bad = sum(n for k, n in found.items() if k.startswith("!"))
        ran = "in part" if ended or given.short or given.share < 1 else "whole"
        figures[name] = Figure(
            tried=found.total() - bad, wrong=bad, seconds=round(time.perf_counter() - start), ran=ran
        )
        wrong += bad
        print(f"{name}: {figures[name].tried:,} tried, {bad} went wrong, {figures[name].seconds} s", flush=True)
        for line, times in found.items():
            if line.startswith("!"):
                print(f"  {line} ({times})", flush=True)
        if given.record is not None:
            given.record.write_text(page(figures), encoding="utf-8")
    print(summary(figures))
    return int(wrong > 0)


Figures = dict[str, Figure]


def summary(figures: Figures) -> str:
    """One line over all campaigns."""
    faults = sum(f.tried for name, f in figures.items() if name not in FULL)
    inputs = sum(f.tried for name, f in figures.items() if name in FULL)
    wrong = sum(f.wrong for f in figures.values())
    return f"{faults:,} kills and faults, {inputs:,} fuzzed inputs; half releases, lost, leaked or uncaught: {wrong}"


def page(figures: Figures) -> str:
    """The page of the figures, as Markdown."""
    named = [(name, figures[name]) for name in WHAT if name in figures]
    rows = [f"| {name} | {f.tried:,} | {f.wrong} | {f.seconds} | {f.ran} |" for name, f in named]
    return "\n".join((HEAD, *rows, "", summary(figures) + ".", ""))


def recorded(file: Path) -> Figures:
    """The figures of a page that is there."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {
        row[0]: Figure(tried=int(row[1].replace(",", "")), wrong=int(row[2]), seconds=int(row[3]), ran=row[4])
        for row in rows
        if row[0] in WHAT
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
