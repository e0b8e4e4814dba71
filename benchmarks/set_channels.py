"""Set-valued reports on the census stand-in: errors expected by algebra beside those of one release.

    SFUMATO_DATA=folder python -m benchmarks.set_channels [conditions]

Needs `census_like_acs2018.parquet`. rho1 = 1/13, rho2 = 1/6 (gamma 2.4). The pool is that of small_domain_errors.py:
mean relative error of counts of true selectivity of at least 0.1, 0.5 and 1 %. Then AVG(salary) over the conditions
that 0.5 % of the rows meet. Expected: E|error| = sqrt(2 / pi) se, with the true standard error of the plan.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.small_domain_errors import QUASI, SEED, SELECTIVITIES, answers, census, pool, truths
from sfumato.choosing.foresee import ExpectedRelease
from sfumato.choosing.workload import Original
from sfumato.engines import engine_named
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

RHOS = {"rho1": "1/13", "rho2": "1/6"}
MEAN_ABSOLUTE = np.sqrt(2 / np.pi)  # of a standard normal
HALF_PER_CENT = 0.005


def methods() -> Iterator[tuple[str, Any]]:
    """(name, specification) of what is compared for counts."""
    yield "uniform", sf.UniformPerturbation(**RHOS)
    yield "subset-response", sf.SubsetResponse(**RHOS)
    yield "small-domain value", sf.SmallDomain(**RHOS, report="value")
    yield "small-domain set", sf.SmallDomain(**RHOS, report="set")


def mean_methods() -> Iterator[tuple[str, Any]]:
    """The same for AVG(salary)."""
    yield from methods()
    yield "subset-response, workload sum", sf.SubsetResponse(**RHOS, workload="sum")
    yield "small-domain, workload sum", sf.SmallDomain(**RHOS, workload="sum")


def original(table: pa.Table, roles: sf.Roles) -> Original:
    """The table, to be asked many questions."""
    return Original(engine_named().open(table), [*roles.sensitive, *roles.quasi], engine_named())


def expected(table: pa.Table, roles: sf.Roles, spec: Any, truth: Original) -> ExpectedRelease:
    """The release that the plan leads to, before anything is drawn."""
    return ExpectedRelease(prepare(table, roles=roles, method=spec, secret=Secret.from_seed(SEED)), truth)


def where(condition: dict[str, int]) -> str:
    """A condition of the pool as SQL."""
    return " AND ".join(f"{name} = {value}" for name, value in condition.items())


def counts(table: pa.Table, conditions: list[dict[str, int]]) -> None:
    """Table: mean relative error of counts of occupations."""
    true = truths(table, conditions)
    kept = [true >= s * table.num_rows for s in SELECTIVITIES]
    used = np.flatnonzero(kept[0].any(axis=1))
    asked = [conditions[k] for k in used]
    print(f"\n{', '.join(f'{k.sum()} counts at {s:.1%}' for k, s in zip(kept, SELECTIVITIES, strict=True))}\n")
    print("| method | expected at 0.1 % | 0.5 % | 1 % | observed | | |\n|---|---|---|---|---|---|---|")
    roles = sf.Roles(sensitive="occupation", quasi=QUASI, identifying=["salary"])
    whole = original(table, roles)
    for name, spec in methods():
        planned = expected(table, roles, spec, whole)
        errors = []
        for condition in asked:
            sql = f"SELECT occupation, COUNT(*) AS n FROM release WHERE {where(condition)} GROUP BY 1 ORDER BY 1"
            errors.append(planned.sql(sql).table["n_se"].to_numpy(zero_copy_only=False))
        foreseen = MEAN_ABSOLUTE * np.array(errors) / np.maximum(true[used], 1)
        release = sf.publish(table, roles=roles, method=spec, seed=SEED)
        seen = np.abs(answers(release, asked, None)[:, :, 0] - true[used]) / np.maximum(true[used], 1)
        cells = [f"{e[k[used]].mean():.3f}" for e in (foreseen, seen) for k in kept]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def means(table: pa.Table, conditions: list[dict[str, int]]) -> None:
    """Table: mean relative error of AVG(salary)."""
    columns = {name: table[name].to_numpy() for name in (*QUASI, "salary")}
    rows = [np.logical_and.reduce([columns[n] == v for n, v in c.items()]) for c in conditions]
    asked = [
        (c, columns["salary"][r].mean()) for c, r in zip(conditions, rows, strict=True) if r.mean() >= HALF_PER_CENT
    ]
    true = np.array([mean for _, mean in asked])
    print(f"\nAVG(salary) over {len(asked)} conditions\n\n| method | expected | observed |\n|---|---|---|")
    roles = sf.Roles(sensitive="salary", quasi=QUASI, identifying=["occupation"])
    whole = original(table, roles)
    for name, spec in mean_methods():
        planned = expected(table, roles, spec, whole)
        release = sf.publish(table, roles=roles, method=spec, seed=SEED)
        found = []
        for source in (planned, release):
            texts = [f"SELECT AVG(salary) AS n FROM release WHERE {where(c)}" for c, _ in asked]
            found.append([source.sql(text).rows()[0] for text in texts])
        foreseen = (MEAN_ABSOLUTE * np.array([row["n_se"] for row in found[0]]) / true).mean()
        seen = (np.abs(np.array([row["n"] for row in found[1]]) - true) / true).mean()
        print(f"| {name} | {foreseen:.3f} | {seen:.3f} |", flush=True)


def main() -> None:
    """Print both tables."""
    table = census()
    conditions = pool(table, int(sys.argv[1]) if len(sys.argv) > 1 else 200)
    counts(table, conditions)
    means(table, conditions)


if __name__ == "__main__":
    main()
