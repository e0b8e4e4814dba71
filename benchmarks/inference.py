"""Coverage of fits, tests, Cramer's V, comparisons and quantiles over many releases of Adult, by method and target.

    python -m benchmarks.inference [--releases 200] [--rows 48842] [--method splu] [--target table|population]

The table's own target: one table, published again and again; the truth is the fit of the original rows. The population:
rows drawn with replacement from Adult, each draw published once; the truth is the fit of all of Adult. The size of the
test is measured with sex dealt out at random over the table, so that it goes with nothing. Releases are drawn in memory
(`benchmarks/redrawn.py`), each twentieth by the whole path of `publish`. `within` says whether a figure lies where it
must: coverage of every coefficient in [.89, .995] with a mean in [.93, .97], of other numbers in [.89, 1], a bias of at
most a quarter of the standard error (plus twice what the simulation itself errs by, 1 / sqrt(releases)) where the
information ratio is above 10, and sizes in [.02, .08].
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.redrawn import Redrawn
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
    "subset-response": lambda: sf.SubsetResponse(rho1="1/5", rho2="1/2"),
    "uniform": lambda: sf.UniformPerturbation(rho1="1/5", rho2="1/2"),
    "small-domain": lambda: sf.SmallDomain(rho1="1/5", rho2="1/2"),
    "randomized-response": lambda: sf.RandomizedResponse(scope="s", keep={"occupation": "0.6"}),
    "splu": lambda: sf.Splu(gamma=4),
    "anatomy": lambda: sf.Anatomy(l=4),
}
ROLES = sf.Roles(sensitive="occupation", rest="quasi")
FORMULA = "income ~ age + sex + C(occupation)"


ROWS = 48_842
WHOLE_PATH = 20  # each so many-th release is published with files and checks
SIZE = "size of the test at 0.05"
HEADER = "| method | target | question | answered | coverage | mean | bias / se | within |\n" + "|---" * 8 + "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Of one question: the least, largest and mean coverage of its numbers, and the largest bias that is judged."""

    method: str
    target: str
    question: str
    answered: int
    releases: int
    least: float
    largest: float
    mean: float
    bias: float | None

    @property
    def within(self) -> bool:
        """Whether it lies in the stated range."""
        if self.question == SIZE:
            return 0.02 <= self.mean <= 0.08
        if self.bias is not None and self.bias > 0.25 + 2 / self.releases**0.5:
            return False
        if self.question == "fit":
            return self.least >= 0.89 and self.largest <= 0.995 and 0.93 <= self.mean <= 0.97
        return self.least >= 0.89

    def line(self) -> str:
        """One row of the table, in Markdown."""
        several = self.largest > self.least
        share = f"{self.least:.3f} .. {self.largest:.3f}" if several else f"{self.least:.3f}"
        bias = "" if self.bias is None else f"{self.bias:.2f}"
        return (
            f"| {self.method} | {self.target} | {self.question} | {self.answered} of {self.releases} | {share} "
            f"| {self.mean:.3f} | {bias} | {'yes' if self.within else 'NO'} |"
        )


def redrawn(table: pa.Table, method: Any) -> Redrawn:
    """Releases of the table, occupation's domain declared: a rare one that is not drawn stays a level."""
    levels = sorted(v for v in sf.datasets.adult()["occupation"].unique().to_pylist() if v is not None)
    domains = {"occupation": [*levels, None]}
    return Redrawn(table, roles=ROLES, method=method, null_as_value=True, domains=domains)


Numbers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # estimates, low, high, information ratios


def _fit(release: Any, target: str) -> Numbers | None:
    try:
        model = release.fit(FORMULA, family="binomial", recode=GROUPS, target=target)
    except UnsupportedQuery:
        return None
    ends = model.conf_int().to_numpy()
    return model.estimates, ends[:, 0], ends[:, 1], np.asarray(model.information)


def _cramers_v(release: Any, target: str) -> Numbers | None:
    tested = release.test("sex", "occupation", recode=GROUPS, target=target)
    return None if tested.cramers_v is None else _one(tested.cramers_v, *tested.interval)


def _shares(release: Any, target: str) -> Numbers:
    second = release.compare(by="sex", share="occupation = 'Sales'", target=target).groups[1]
    return _one(second.difference, second.low, second.high)


def _means(release: Any, target: str) -> Numbers:
    second = release.compare(by="sex", mean="education_num", where="occupation = 'Sales'", target=target).groups[1]
    return _one(second.difference, second.low, second.high)


def _median(release: Any, target: str) -> Numbers | None:
    if target != "table":
        return None
    row = release.quantile("education_num", 0.5, where="occupation = 'Craft-repair'").rows[0]
    return _one(row.value, row.low, row.high)


def _one(*numbers: float) -> Numbers:
    value, low, high = (np.array([x]) for x in numbers)
    return value, low, high, np.array([np.inf])


ASKED: dict[str, Callable[[Any, str], Numbers | None]] = {
    "fit": _fit,
    "Cramer's V": _cramers_v,
    "difference of shares": _shares,
    "difference of means": _means,
    "median": _median,
}
QUESTIONS = (*ASKED, SIZE)


def analyse(release: Any, target: str, questions: Sequence[str] = QUESTIONS) -> dict[str, Numbers]:
    """question -> numbers; what is refused is left out."""
    found = {name: ask(release, target) for name, ask in ASKED.items() if name in questions}
    return {name: numbers for name, numbers in found.items() if numbers is not None}


def shuffled(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The table with sex dealt out at random."""
    at = table.column_names.index("sex")
    return table.set_column(at, "sex", table["sex"].take(pa.array(rng.permutation(table.num_rows))))


def measure(
    method: str, target: str, releases: int, rows: int, questions: Sequence[str] = QUESTIONS
) -> Iterator[Finding]:
    """One finding per question, and the size of the test; the releases are the same whatever is asked."""
    rng = np.random.default_rng(releases)
    whole = sf.datasets.adult().select(COLUMNS)
    table = whole if rows >= whole.num_rows else whole.take(rng.permutation(whole.num_rows)[:rows])
    exact = redrawn(
        whole if target == "population" else table, sf.RandomizedResponse(scope="qi", keep={"occupation": "1"})
    )
    truth = {q: v[0] for q, v in analyse(exact.release(0), "table", questions).items()}
    seen: dict[str, list[Numbers]] = defaultdict(list)
    fixed, rejected = redrawn(table, METHODS[method]()), 0
    for r in range(releases):
        if target == "population":
            drawn = whole.take(rng.integers(0, whole.num_rows, rows))
            own = redrawn(drawn, METHODS[method]())
            release = own.published(r) if r % WHOLE_PATH == 0 else fixed.release(r, drawn)
        else:
            release = fixed.published(r) if r % WHOLE_PATH == 0 else fixed.release(r)
            if SIZE in questions:
                free = fixed.release(releases + r, shuffled(table, rng), same_values=True)
                rejected += free.test("sex", "occupation", recode=GROUPS).pvalue < 0.05
        for question, numbers in analyse(release, target, questions).items():
            seen[question].append(numbers)
    for question, found in seen.items():
        value, low, high, ratio = (np.array([n[i] for n in found]) for i in range(4))
        inside = ((low <= truth[question]) & (truth[question] <= high)).mean(axis=0)
        half = (high - low).mean(axis=0) / 2 / 1.96
        bias = np.abs(value.mean(axis=0) - truth[question]) / np.maximum(half, 1e-12)
        judged = bias[np.median(ratio, axis=0) > 10]
        yield Finding(
            method=method,
            target=target,
            question=question,
            answered=len(found),
            releases=releases,
            least=float(inside.min()),
            largest=float(inside.max()),
            mean=float(inside.mean()),
            bias=float(judged.max()) if question != "median" and judged.size else None,
        )
    if target == "population" or SIZE not in questions:
        return
    share = rejected / releases
    yield Finding(
        method=method, target=target, question=SIZE, answered=releases, releases=releases,
        least=share, largest=share, mean=share, bias=None,
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--method", choices=METHODS, action="append")
    parser.add_argument("--target", choices=("table", "population"), action="append")
    asked = parser.parse_args()
    print(HEADER)
    for target in asked.target or ("table", "population"):
        for method in asked.method or METHODS:
            started = time.perf_counter()
            for finding in measure(method, target, asked.releases, asked.rows):
                print(finding.line(), flush=True)
            print(f"<!-- {method}, {target}: {time.perf_counter() - started:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
