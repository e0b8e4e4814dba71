"""`make audit`: kills, faults and fuzzers, what was tried and what went wrong.

    python -m benchmarks.campaigns [--short] [--share 0.1]

The full form tries every step of the write phase and more than 200,000 inputs; --share does a part of them.
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

from benchmarks import fault_campaign, formula_campaign, fuzz_campaign

FULL = {"SQL": 120_000, "formulas": 60_000, "options": 80_000, "bundles": 4_000, "tables": 1_500}


def campaigns(share: float) -> dict[str, Callable[[], Counter[str]]]:
    """Name -> campaign, at a share of its full size."""
    rng = random.Random(20_141)
    stride = max(1, round(1 / share))

    def size(name: str) -> int:
        return max(5, int(FULL[name] * share))

    return {
        "kills and faults": lambda: fault_campaign.kills_and_faults(stride),
        "short disks": lambda: fault_campaign.short_disks(max(3, int(40 * share))),
        "changing sources": fault_campaign.changing_sources,
        "SQL": lambda: fuzz_campaign.sql(size("SQL"), rng),
        "formulas": lambda: formula_campaign.formulas(size("formulas"), rng),
        "options": lambda: fuzz_campaign.options(size("options"), rng),
        "bundles": lambda: fuzz_campaign.bundles(size("bundles"), rng),
        "tables": lambda: fuzz_campaign.tables(size("tables"), rng),
    }


def main(arguments: list[str]) -> int:
    """Exit code: 0 where nothing went wrong."""
    parser = argparse.ArgumentParser(prog="campaigns")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as own:  # killed runs leave scratch behind; not among everybody's
        os.environ["TMPDIR"] = tempfile.tempdir = own
        return _run(given)


def _run(given: argparse.Namespace) -> int:
    """All campaigns, one after the other."""
    total: Counter[str] = Counter()
    for name, campaign in campaigns(0.002 if given.short else given.share).items():
        if given.only and given.only not in name:
            continue
        start = time.perf_counter()
        found = campaign()
        total += found
        print(
            f"{name}: {sum(n for k, n in found.items() if k[0] != '!'):,} tried, {time.perf_counter() - start:.0f} s",
            flush=True,
        )
        for line, times in found.items():
            if line.startswith("!"):
                print(f"  {line} ({times})")
    wrong = sum(n for k, n in total.items() if k.startswith("!"))
    faults = sum(total[k] for k in ("kill", "ENOSPC", "EIO", "short disk", "source changed"))
    inputs = sum(total[k] for k in ("SQL", "formula", "fit", "options", "bundle", "csv", "parquet"))
    print(f"{faults:,} kills and faults, {inputs:,} fuzzed inputs; half releases, lost, leaked or uncaught: {wrong}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
