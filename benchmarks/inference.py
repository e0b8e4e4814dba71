"""Coverage of fits, tests, Cramer's V, comparisons and quantiles over many releases of Adult, by method and target.

    python -m benchmarks.inference [--releases 200] [--rows 48842] [--method splu] [--target table|population]

The table's own target: one table, published again and again; the truth is the fit of the original rows. The population:
rows drawn with replacement from Adult, each draw published once; the truth is the fit of all of Adult. The size of the
test is measured with sex dealt out at random, so that it goes with nothing. A release of all rows and its analyses
take about a second on an idle core.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.errors import UnsupportedQuery

COLUMNS = ("age", "sex", "income", "occupation", "education_num")
GROUPS = {
    "occupation": {
        "Professional": ["Exec-managerial", "Prof-specialty"],
        "Office": ["Adm-clerical", "Sales", "Tech-support"],
        "Manual": ["Craft-repair", "Transport-moving", "Machine-op-inspct", "Handlers-cleaners", "Farming-fishing"],
        "Service": ["Other-service", "Protective-serv", "Priv-house-serv", "Armed-Forces"],
        "none": [None],
    }
}
METHODS = {
    "uniform": lambda: sf.UniformPerturbation(rho1="1/5", rho2="1/2"),
    "small-domain": lambda: sf.SmallDomain(rho1="1/5", rho2="1/2"),
    "randomized-response": lambda: sf.RandomizedResponse(scope="s", keep={"occupation": "0.6"}),
    "splu": lambda: sf.Splu(gamma=4),
    "anatomy": lambda: sf.Anatomy(l=4),
}
ROLES = sf.Roles(sensitive="occupation", rest="quasi")
FORMULA = "income ~ age + sex + C(occupation)"


def publish(table: pa.Table, method: Any, seed: int) -> Any:
    """A release of the table."""
    return sf.publish(table, roles=ROLES, method=method, seed=seed, null_as_value=True)


def analyse(release: Any, target: str) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """question -> (estimates, low, high); what is refused is left out."""
    found: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    try:
        model = release.fit(FORMULA, family="binomial", recode=GROUPS, target=target)
        ends = model.conf_int().to_numpy()
        found["fit"] = (model.estimates, ends[:, 0], ends[:, 1])
    except UnsupportedQuery:
        pass
    tested = release.test("sex", "occupation", recode=GROUPS, target=target)
    if tested.cramers_v is not None:
        found["Cramer's V"] = tuple(np.array([x]) for x in (tested.cramers_v, *tested.interval))
    second = release.compare(by="sex", share="occupation = 'Sales'", target=target).groups[1]
    found["difference"] = tuple(np.array([x]) for x in (second.difference, second.low, second.high))
    if target == "table":
        row = release.quantile("education_num", 0.5, where="occupation = 'Craft-repair'").rows[0]
        found["median"] = tuple(np.array([x]) for x in (row.value, row.low, row.high))
    return found


def shuffled(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The table with sex dealt out at random."""
    at = table.column_names.index("sex")
    return table.set_column(at, "sex", table["sex"].take(pa.array(rng.permutation(table.num_rows))))


def measure(method: str, target: str, releases: int, rows: int) -> None:
    """Print one line per question."""
    rng = np.random.default_rng(releases)
    whole = sf.datasets.adult().select(COLUMNS)
    table = whole if rows >= whole.num_rows else whole.take(rng.permutation(whole.num_rows)[:rows])
    exact = sf.RandomizedResponse(scope="qi", keep={"occupation": "1"})
    truth = {
        q: v[0] for q, v in analyse(publish(whole if target == "population" else table, exact, 0), "table").items()
    }
    seen: dict[str, list[Any]] = defaultdict(list)
    rejected, started = 0, time.perf_counter()
    for r in range(releases):
        drawn = whole.take(rng.integers(0, whole.num_rows, rows)) if target == "population" else table
        for question, numbers in analyse(publish(drawn, METHODS[method](), r), target).items():
            seen[question].append(numbers)
        free = publish(shuffled(drawn, rng), METHODS[method](), r)
        rejected += free.test("sex", "occupation", recode=GROUPS).pvalue < 0.05
    seconds = (time.perf_counter() - started) / releases
    for question, numbers in seen.items():
        value, low, high = (np.array([n[i] for n in numbers]) for i in range(3))
        inside = ((low <= truth[question]) & (truth[question] <= high)).mean(axis=0)
        half = (high - low).mean(axis=0) / 2 / 1.96
        bias = np.abs(value.mean(axis=0) - truth[question]) / np.maximum(half, 1e-12)
        print(
            f"| {method} | {target} | {question} | {len(numbers)} of {releases} "
            f"| {inside.min():.3f} .. {inside.max():.3f} | {inside.mean():.3f} | {bias.max():.2f} |",
            flush=True,
        )
    print(f"| {method} | {target} | size of the test at 0.05 | {releases} | {rejected / releases:.3f} | | |")
    print(f"  ({seconds:.1f} s for each of {releases} draws: two releases and all analyses)", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--rows", type=int, default=48_842)
    parser.add_argument("--method", choices=METHODS, action="append")
    parser.add_argument("--target", choices=("table", "population"), action="append")
    asked = parser.parse_args()
    print("| method | target | question | answered | coverage | mean | bias / se |\n|---|---|---|---|---|---|---|")
    for target in asked.target or ("table", "population"):
        for method in asked.method or METHODS:
            measure(method, target, asked.releases, asked.rows)


if __name__ == "__main__":
    main()
