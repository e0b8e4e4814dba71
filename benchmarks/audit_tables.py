"""The tables of docs/audit.md: every method published on Adult (and on the census stand-in), attacked and scored.

    python -m benchmarks.audit_tables [adult] [census] [--only METHOD]

The census stand-in is read from the folder SFUMATO_DATA. Seeds are fixed: the same releases, the same targets.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.audit.score import audit
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build
from sfumato.model.public import Roles
from sfumato.publish import publish

ADULT = {
    "uniform": {"rho1": "1/5", "rho2": "1/3"},
    "subset-response": {"rho1": "1/5", "rho2": "1/3"},
    "small-domain": {"rho1": "1/5", "rho2": "1/3"},
    "splu": {"gamma": "3"},
    "target-distribution": {"partition_by": "sex,race"},
    "randomized-response": {"keep": "occupation=1/5"},
    "anatomy": {"l": "3"},
    "l-diversity": {"l": "3", "hierarchies": "age=interval:5/10/20/40"},
    "distribution-draw": {},
}
CENSUS = ADULT | {
    "uniform": {"rho1": "1/10", "rho2": "1/3"},
    "subset-response": {"rho1": "1/10", "rho2": "1/3"},
    "small-domain": {"rho1": "1/10", "rho2": "1/3"},
    "target-distribution": {"partition_by": "gender"},
}
MOST_ROWS = 100_000  # of the census stand-in, chosen at random
TABLES = {
    "adult": (ADULT, ("age", "education", "marital_status", "race", "sex", "workclass")),
    "census": (CENSUS, ("age", "education", "marital", "race", "gender", "workclass")),
}


def table_of(name: str) -> pa.Table:
    """The table with a row number, by which the scorer can tell records apart."""
    if name == "adult":
        import sfumato.datasets

        path = Path(sfumato.datasets.__file__).parent / "adult.parquet"
    else:
        path = Path(os.environ["SFUMATO_DATA"]) / "census_like_acs2018.parquet"
    found = pq.read_table(path)
    if len(found) > MOST_ROWS:
        found = found.take(pa.array(np.sort(np.random.default_rng(1).choice(len(found), MOST_ROWS, replace=False))))
    number = np.random.default_rng(0).permutation(len(found)).astype(np.int32)
    return found.append_column("number", pa.array(number))


def scores(name: str, targets: int = 1000, only: str = "") -> dict[str, dict[str, Any]]:
    """The audit of every method on the table."""
    parameters, quasi = TABLES[name]
    table = table_of(name).select([*quasi, "occupation", "number"])
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "t.parquet"
        pq.write_table(table, source)
        for method in REGISTRY:
            if method not in parameters or only not in {"", method}:
                continue
            made = [
                publish(
                    source,
                    Path(scratch) / f"{method}-{seed}",
                    roles=Roles(sensitive="occupation", quasi=quasi, insensitive=["number"]),
                    method=build(method, parameters[method]),
                    null_as_value=True,
                    seed=seed,
                ).opened
                for seed in (1, 2)
            ]
            found[method] = audit(made[0], source, second=made[1], targets=targets)
            print(f"{name}: {method} done", file=sys.stderr)
    return found


def markdown(found: dict[str, dict[str, Any]]) -> str:
    """Attacks by methods: success in per cent, with the promise after a stroke where there is one."""
    names = list(dict.fromkeys(line["attack"] for document in found.values() for line in document["attacks"]))
    lines = ["| attack | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    for name in names:
        cells = []
        for document in found.values():
            line = next((x for x in document["attacks"] if x["attack"] == name), None)
            if line is None:
                cells.append("")
            else:
                bound = "" if line["bound"] is None else f" / {line['bound']:.0%}"
                cells.append(f"{line['success']:.1%}{bound}" + (" **above**" if line["breaks"] else ""))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="audit_tables")
    parser.add_argument("tables", nargs="*", default=["adult"], choices=list(TABLES))
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    for chosen in given.tables:
        documents = scores(chosen, only=given.only)
        blind = next(iter(documents.values()))["attacks"][0]["blind"]
        print(f"{chosen}: blind guess {blind:.1%}\n\n{markdown(documents)}\n")
