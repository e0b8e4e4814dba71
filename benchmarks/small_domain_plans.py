"""Plans for the census stand-in: retention, sub-tables and distance from the best possible, as Markdown tables.

    SFUMATO_DATA=folder python -m benchmarks.small_domain_plans

Needs `census_like_acs2018.parquet` and, for the larger domains, `diabetes130.parquet` and
`canada_vigilance_reactions.parquet` in the folder. Planning only: nothing is published, nothing is random.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sfumato.methods.small_domain.plan import (
    Costs,
    Counts,
    Partition,
    balance,
    candidate_orders,
    distance_from_best,
    least_variance,
    merge,
    partition,
    value_variance,
)
from sfumato.stats.gamma import keep_probabilities

RHO1 = Fraction(1, 13)
LEVELS = (3, 4, 5, 6)
PAPER_UNIFORM = {3: 9.4, 4: 5.9, 5: 4.0, 6: 2.9}  # [PP, table 2], per cent
PAPER_PARTITIONED = {3: 25.7, 4: 17.3, 5: 12.3, 6: 9.0}


def folder() -> Path:
    """The data folder, or a one-line message and exit."""
    if not os.environ.get("SFUMATO_DATA"):
        sys.exit("set SFUMATO_DATA to the folder that holds census_like_acs2018.parquet")
    return Path(os.environ["SFUMATO_DATA"])


def histogram(file: str, *columns: str, rows: int | None = None) -> Counts:
    """Counts of the distinct values of the columns taken together, nulls left out."""
    table = pq.read_table(folder() / file, columns=list(columns)).drop_null().slice(0, rows)
    return np.sort(table.group_by(list(columns)).aggregate([([], "count_all")])["count_all"].to_numpy())[::-1]


def balance_and_merge(counts: Counts, costs: Costs, theta: int) -> tuple[float, int]:
    """(total cost, sub-tables) of balancing, rearranging and merging without dealing."""
    groups, protected = balance(counts, theta), counts > 0
    cost, tables = min(
        (merge([groups[i] for i in o], protected, costs) for o in candidate_orders(groups)), key=lambda c: c[0]
    )
    return cost, len(tables)


def row(cells: Iterable[object]) -> None:
    """One line of a Markdown table."""
    print("| " + " | ".join(str(c) for c in cells) + " |")


def head(*names: str) -> None:
    """The first two lines of a Markdown table."""
    row(names)
    row("---" for _ in names)


def mean_domain(plan: Partition) -> float:
    """Values in a sub-table, averaged over sub-tables."""
    return float(np.mean([t.values.size for t in plan.sub_tables]))


def retention() -> None:
    """Table: retention by method and mode beside the paper's."""
    print("\n### Retention p in per cent, averaged over records (rho1 = 1/13, rho2 = 1/L)\n")
    head("column", "L", "uniform", "strict", "paper mode", "strict / uniform", "PP's uniform", "PP's PP")
    for column in ("occupation", "salary"):
        counts = histogram("census_like_acs2018.parquet", column)
        for level in LEVELS:
            costs = Costs(rho1=RHO1, rho2=Fraction(1, level), rows=int(counts.sum()), min_size=1000)
            paper = Costs(rho1=RHO1, rho2=costs.rho2, rows=costs.rows, min_size=1, strict=False, objective="bound")
            uniform = float(keep_probabilities(costs.cap or Fraction(2), counts.size)[0])
            strict, own = partition(counts, costs).retention, partition(counts, paper).retention
            printed = (PAPER_UNIFORM[level], PAPER_PARTITIONED[level]) if column == "occupation" else ("", "")
            row(
                (
                    column,
                    level,
                    *(f"{100 * x:.1f}" for x in (uniform, strict, own)),
                    f"{strict / uniform:.2f}",
                    *printed,
                )
            )


def distance() -> None:
    """Table: root total variance over the root of the lower limit."""
    print("\n### Root total variance over the best possible (strict, minimum size 1000)\n")
    head(
        "column",
        "L",
        "plan",
        "sub-tables",
        "mean values",
        "balance and merge",
        "sub-tables",
        "theta as in the paper",
        "bound objective",
    )
    for column in ("occupation", "salary"):
        counts = histogram("census_like_acs2018.parquet", column)
        for level in LEVELS:
            costs = Costs(rho1=RHO1, rho2=Fraction(1, level), rows=int(counts.sum()), min_size=1000)
            plan, least = partition(counts, costs), least_variance(costs.rows, costs)
            merged, number = balance_and_merge(counts, costs, 13)
            finest, _ = balance_and_merge(counts, costs, int(counts.sum() // counts.max()))
            bound = partition(
                counts, Costs(rho1=RHO1, rho2=costs.rho2, rows=costs.rows, min_size=1000, objective="bound")
            )
            row(
                (
                    column,
                    level,
                    f"{distance_from_best(plan, costs):.3f}",
                    len(plan.sub_tables),
                    f"{mean_domain(plan):.1f}",
                    f"{sqrt(merged / least):.3f}",
                    number,
                    f"{sqrt(finest / least):.3f}",
                    f"{distance_from_best(bound, costs):.3f}",
                )
            )


def large_domains() -> None:
    """Table: the same distance where values are many, with planning time."""
    print("\n### Larger domains (strict, rho1 = 1/13, rho2 = 1/6, minimum size 1000)\n")
    head("table", "rows", "values", "plan", "sub-tables", "seconds", "balance and merge", "sub-tables", "one table")
    rank = np.arange(1, 15001)
    zipf = (300_000 * rank**-0.8 / (rank**-0.8).sum()).astype(np.int64) + 1
    for name, counts in (
        ("census occupation x education", histogram("census_like_acs2018.parquet", "occupation", "education")),
        ("diabetes diag_1", histogram("diabetes130.parquet", "diag_1")),
        ("reactions", histogram("canada_vigilance_reactions.parquet", "reaction")),
        ("made up: rank^-0.8", zipf),
    ):
        costs = Costs(rho1=RHO1, rho2=Fraction(1, 6), rows=int(counts.sum()), min_size=1000)
        start = time.perf_counter()
        plan = partition(counts, costs)
        seconds, least = time.perf_counter() - start, least_variance(costs.rows, costs)
        merged, number = balance_and_merge(counts, costs, 13)
        one = costs.rows * float(value_variance(counts.size, float(costs.cap or 2)))
        row(
            (
                name,
                costs.rows,
                counts.size,
                f"{distance_from_best(plan, costs):.2f}",
                len(plan.sub_tables),
                f"{seconds:.2f}",
                f"{sqrt(merged / least):.2f}",
                number,
                f"{sqrt(one / least):.1f}",
            )
        )


def sizes() -> None:
    """Table: groups, sub-tables, values and gamma in paper mode, beside [PP, table 3]."""
    print("\n### Paper mode, bound objective, no minimum size, rho2 = 1/6 (PP's table 3 in brackets)\n")
    head("rows", "groups", "sub-tables", "mean values", "mean gamma")
    printed = {100_000: (17, 15, 15.0, 2.6), 200_000: (18, 8, 20.9, 2.7), 295_243: (19, 10, 17.3, 2.6)}
    for rows, (groups, tables, values, gamma) in printed.items():
        counts = histogram("census_like_acs2018.parquet", "occupation", rows=rows)
        costs = Costs(rho1=RHO1, rho2=Fraction(1, 6), rows=rows, strict=False, objective="bound")
        plan = partition(counts, costs)
        mean = np.mean([float(t.gamma) for t in plan.sub_tables])
        found = len(balance(counts, plan.theta))
        cells = (rows, found, len(plan.sub_tables), f"{mean_domain(plan):.1f}", f"{mean:.1f}")
        row((cells[0], *(f"{a} ({b})" for a, b in zip(cells[1:], (groups, tables, values, gamma), strict=True))))


def skewed() -> None:
    """Table: education, most records in unprotected values."""
    print("\n### Education (rho1 = 1/30): most records have unprotected values\n")
    head(
        "L",
        "unprotected values",
        "their share",
        "retention uniform",
        "retention strict",
        "sub-tables",
        "error / one table",
    )
    counts = histogram("census_like_acs2018.parquet", "education")
    for level in LEVELS:
        costs = Costs(rho1=Fraction(1, 30), rho2=Fraction(1, level), rows=int(counts.sum()), min_size=1000)
        plan = partition(counts, costs)
        cap = costs.cap or Fraction(2)
        one = costs.rows * float(value_variance(counts.size, float(cap)))
        open_ = counts[~plan.protected]
        row(
            (
                level,
                open_.size,
                f"{open_.sum() / costs.rows:.0%}",
                f"{100 * float(keep_probabilities(cap, counts.size)[0]):.1f}",
                f"{100 * plan.retention:.1f}",
                len(plan.sub_tables),
                f"{sqrt(plan.total_variance / one):.2f}",
            )
        )


if __name__ == "__main__":
    for table in (retention, distance, sizes, skewed, large_domains):
        table()
