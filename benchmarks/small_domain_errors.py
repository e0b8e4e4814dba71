"""Mean relative error of the query pool on the census stand-in: uniform, small-domain and anatomy side by side.

    SFUMATO_DATA=folder python -m benchmarks.small_domain_errors [conditions]

The pool (docs/explanation/query-pool.md): conditions on one to three of seven columns, a value drawn uniformly from
each column's domain, crossed with all occupations; questions of true selectivity of at least 0.1, 0.5 and 1 %.
Every release is published and asked through the public interface. 200 conditions take some minutes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf

SELECTIVITIES = (0.001, 0.005, 0.01)
SENSITIVE = "occupation"
QUASI = ("age", "gender", "education", "marital", "race", "workclass", "country")
SEED = 1


def census() -> pa.Table:
    """The table, or a one-line message and exit."""
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        sys.exit("set SFUMATO_DATA to the folder that holds census_like_acs2018.parquet")
    return pq.read_table(Path(folder) / "census_like_acs2018.parquet")


def pool(table: pa.Table, size: int) -> list[dict[str, int]]:
    """Conditions column = value, drawn as the paper does."""
    rng = np.random.default_rng(SEED)
    domains = {name: np.unique(table[name].to_numpy()) for name in QUASI}
    chosen = (rng.choice(QUASI, size=rng.integers(1, 4), replace=False) for _ in range(size))
    return [{str(name): int(rng.choice(domains[name])) for name in names} for names in chosen]


def truths(table: pa.Table, conditions: list[dict[str, int]]) -> np.ndarray:
    """True counts, conditions by occupations."""
    columns = {name: table[name].to_numpy() for name in (*QUASI, SENSITIVE)}
    values = np.unique(columns[SENSITIVE])
    counts = np.zeros((len(conditions), values.size))
    for k, condition in enumerate(conditions):
        rows = np.logical_and.reduce([columns[name] == value for name, value in condition.items()])
        counts[k] = (columns[SENSITIVE][rows][:, None] == values).sum(axis=0)
    return counts


def answers(release: sf.Release, conditions: list[dict[str, int]], estimator: str | None) -> np.ndarray:
    """n, n_low and n_high of every question: (conditions, occupations, 3)."""
    found = []
    for condition in conditions:
        where = " AND ".join(f"{name} = {value}" for name, value in condition.items())
        question = (
            f"SELECT {SENSITIVE}, COUNT(*) AS n FROM release WHERE {where} GROUP BY {SENSITIVE} ORDER BY {SENSITIVE}"
        )
        rows = release.sql(question, estimator=estimator).to_arrow()
        found.append(np.stack([rows[c].to_numpy(zero_copy_only=False) for c in ("n", "n_low", "n_high")], axis=1))
    return np.array(found)


def methods(level: int) -> Iterator[tuple[str, object, str | None]]:
    """(name, specification, estimator) of what is compared at rho2 = 1 / level."""
    bound = {"rho1": "1/13", "rho2": f"1/{level}"}
    yield "uniform", sf.UniformPerturbation(**bound), None
    yield "small-domain strict", sf.SmallDomain(**bound, report="value"), None
    yield "small-domain paper", sf.SmallDomain(**bound, mode="paper", objective="bound"), None
    yield "anatomy, plain", sf.Anatomy(l=level), "plain"
    yield "anatomy, debiased", sf.Anatomy(l=level), None


def main() -> None:
    """Print the table, one line for each method and level."""
    table = census()
    conditions = pool(table, int(sys.argv[1]) if len(sys.argv) > 1 else 200)
    true_counts = truths(table, conditions)
    kept = [true_counts >= s * table.num_rows for s in SELECTIVITIES]
    roles = sf.Roles(sensitive=SENSITIVE, quasi=QUASI, identifying=["salary"])
    conditions_used = [k for k in range(len(conditions)) if kept[0][k].any()]  # the others have no question to ask
    print(
        f"{len(conditions)} conditions; questions: "
        + ", ".join(f"{k.sum()} at {s:.1%}" for k, s in zip(kept, SELECTIVITIES, strict=True))
    )
    print("\n| L | method | error at 0.1 % | 0.5 % | 1 % | coverage |\n|---|---|---|---|---|---|")
    for level in (3, 4, 5, 6):
        releases: dict[object, sf.Release] = {}
        for name, spec, estimator in methods(level):
            release = releases.setdefault(spec, None) or sf.publish(table, roles=roles, method=spec, seed=SEED)
            releases[spec] = release
            got = answers(release, [conditions[k] for k in conditions_used], estimator)
            true = true_counts[conditions_used]
            error = np.abs(got[:, :, 0] - true) / np.maximum(true, 1)
            cells = [f"{error[k[conditions_used]].mean():.3f}" for k in kept]
            asked = kept[0][conditions_used]
            inside = ((got[:, :, 1] <= true) & (got[:, :, 2] >= true))[asked].mean()
            print(f"| {level} | {name} | {' | '.join(cells)} | {'' if estimator else f'{inside:.3f}'} |", flush=True)


if __name__ == "__main__":
    main()
