"""The comparisons of the randomised-response paper, as commands that write tables and plots.

    python -m benchmarks.randomized_response distances   scopes s, qi, both against l (EMGRW)
    python -m benchmarks.randomized_response size        both against the number of rows (EMGRW)
    python -m benchmarks.randomized_response queries     base and cube error against anatomy and l-diversity (ESGRO)
    python -m benchmarks.randomized_response association uncertainty coefficients beside published Tables 4 and 5

Each writes FOLDER/<name>.csv and, with the `report` extra, FOLDER/<name>.svg; `--out` names the folder.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from papers import rr as tables
from papers.rr import base_error, cube_error

from sfumato.errors import PlanError
from sfumato.stats.association import chi_square_distance, euclidean_distance, kl_distance, uncertainty_coefficient

Row = dict[str, object]
SEED = 7
PUBLISHED_S = {2: 0.650, 3: 0.267, 4: 0.217, 5: 0.167}  # Table 3's RR-S column: its largest risk is 1, not 1/l

# Tables 4 and 5, x 100, in the order of PAIRS; G-R is divided by the entropy of G there; anatomy copies Q-Q pairs
PAIRS = ("ES", "EG", "ER", "SG", "SR", "GR", "EO", "SO", "GO", "RO")
ORIGINAL_QI = (11.54, 0.68, 1.92, 4.12, 1.07, 1.08)
PUBLISHED = {
    "RR-QI": {
        3: (8.57, 0.63, 1.86, 3.65, 0.53, 1.08, 8.72, 2.41, 4.13, 0.54),
        4: (8.05, 0.58, 1.29, 3.37, 0.45, 1.07, 8.33, 2.27, 4.01, 0.51),
        5: (7.50, 0.33, 1.02, 3.15, 0.44, 1.04, 7.77, 2.17, 3.89, 0.50),
    },
    "anatomy": {
        3: (*ORIGINAL_QI, 0.90, 0.20, 0.25, 0.06),
        4: (*ORIGINAL_QI, 0.46, 0.12, 0.08, 0.02),
        5: (*ORIGINAL_QI, 0.26, 0.05, 0.07, 0.02),
    },
    "l-diversity": {
        3: (0, 0, 0, 0, 0, 0, 8.86, 0, 0, 0),
        4: (9.18, 0, 0, 0, 0, 0, 7.91, 2.74, 0, 0),
        5: (0, 0, 0.21, 0, 0, 0, 7.91, 0, 0, 0.37),
    },
}


def measured(true: np.ndarray, estimate: np.ndarray) -> dict[str, float]:
    """The three distances."""
    return {
        "euclid": euclidean_distance(true, estimate),
        "chi2": chi_square_distance(true, estimate),
        "kl": kl_distance(true, estimate, mix=0.001),  # the same small mix for every method
    }


def averaged(make: Callable[[], dict[str, dict[str, float]]], repeats: int) -> dict[str, dict[str, float]]:
    """Means over independent releases of every estimator's figures."""
    runs = [make() for _ in range(repeats)]
    return {e: {k: float(np.mean([r[e][k] for r in runs])) for k in runs[0][e]} for e in runs[0]}


def distances(repeats: int) -> Iterator[Row]:
    """Figure 3: distance of the estimated full table for the three scopes."""
    codes, sizes, _ = tables.codes_of(tables.EMGRW)
    true, rng = tables.tensor(codes, sizes), np.random.default_rng(SEED)
    for l, scope in itertools.product(range(2, 6), tables.SCOPES):
        note, keep = "", ()
        try:
            found = tables.plan(tables.EMGRW, scope, l)
            keep, risk = found.keep, found.risk
        except PlanError:
            keep, risk, note = (1.0, 1.0, 1.0, 1.0, PUBLISHED_S[l]), 1.0, "infeasible; the published keep, risk 1"

        def make(keep: tuple[float, ...] = keep) -> dict[str, dict[str, float]]:
            estimates = tables.randomised_tables(codes, sizes, keep, rng)
            return {name: measured(true, estimates[name]) for name in ("inverse", "em")}

        for estimator, figures in averaged(make, repeats).items():
            yield {"l": l, "scope": scope, "estimator": estimator, **figures, "risk": risk, "note": note}


def size(repeats: int) -> Iterator[Row]:
    """Figure 4: scope both, l = 3, rows resampled with replacement to r x N; keep probabilities of the full table."""
    codes, sizes, _ = tables.codes_of(tables.EMGRW)
    rng = np.random.default_rng(SEED)
    keep = tables.plan(tables.EMGRW, "both", 3).keep
    for r in (0.5, 1.0, 1.5, 2.0, 2.5):

        def make(r: float = r) -> dict[str, dict[str, float]]:
            sample = codes[rng.integers(0, len(codes), int(r * len(codes)))]
            estimates = tables.randomised_tables(sample, sizes, keep, rng)
            return {name: measured(tables.tensor(sample, sizes), estimates[name]) for name in ("inverse", "em")}

        for estimator, figures in averaged(make, repeats).items():
            yield {"r": r, "rows": int(r * len(codes)), "estimator": estimator, **figures}


def estimates_of(l: int, rng: np.random.Generator) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Every method's estimate of the full ESGRO table, as functions that draw a new release each."""
    codes, sizes, _ = tables.codes_of(tables.ESGRO)
    keep = tables.plan(tables.ESGRO, "qi", l).keep
    for name in ("inverse", "em", "simplex", "clipped"):
        yield f"RR-QI {name}", lambda name=name: tables.randomised_tables(codes, sizes, keep, rng)[name]
    yield "anatomy", lambda: tables.anatomy_table(codes, sizes, l, rng)
    for kind in ("entropy", "frequency"):
        estimate, _ = tables.diversity_table(tables.ESGRO, l, kind)
        yield f"l-diversity {kind}", lambda estimate=estimate: estimate


def queries(repeats: int) -> Iterator[Row]:
    """Figures 5 and 6: distances, base and cube relative error, l = 2 to 7."""
    codes, sizes, _ = tables.codes_of(tables.ESGRO)
    true, rng = tables.tensor(codes, sizes), np.random.default_rng(SEED)
    for l in range(2, 8):
        for method, draw in estimates_of(l, rng):

            def make(draw: Callable[[], np.ndarray] = draw) -> dict[str, dict[str, float]]:
                table = draw()
                errors = {"base": base_error(true, table), "cube": cube_error(true, table)}
                return {"": {**errors, **measured(true, table)}}

            fixed = method.startswith("l-diversity")
            yield {"l": l, "method": method, **averaged(make, 1 if fixed else repeats)[""]}


def two_way(table: np.ndarray, pair: str) -> np.ndarray:
    """The two-way table (X, Y) of two letters of ESGRO; the published G-R has the entropy of G below."""
    x, y = (("ESGRO".index(c)) for c in (pair if pair != "GR" else "RG"))
    flat = table.sum(axis=tuple(i for i in range(5) if i not in (x, y)))
    return flat if x < y else flat.T


def association(repeats: int) -> Iterator[Row]:
    """Tables 4 and 5 with ours beside the published figures, x 100, l = 2 to 7."""
    codes, sizes, _ = tables.codes_of(tables.ESGRO)
    true, rng = tables.tensor(codes, sizes), np.random.default_rng(SEED)
    yield {"l": 0, "method": "original"} | {p: round(100 * uncertainty_coefficient(two_way(true, p)), 2) for p in PAIRS}
    for l in range(2, 8):
        for method, draw in estimates_of(l, rng):
            count = 1 if method.startswith("l-diversity") else repeats
            runs = [draw() for _ in range(count)]
            yield {"l": l, "method": method} | {
                p: round(float(np.mean([100 * uncertainty_coefficient(two_way(t, p)) for t in runs])), 2) for p in PAIRS
            }
        for method, rows in PUBLISHED.items():
            if l in rows:
                yield {"l": l, "method": f"{method} published"} | dict(zip(PAIRS, rows[l], strict=True))


def plot(name: str, rows: list[Row], path: Path) -> None:
    """One small chart per figure of merit."""
    import altair as alt

    axis = {"distances": "l", "size": "rows", "queries": "l", "association": "l"}[name]
    figures = {
        "distances": ["euclid", "chi2", "kl"],
        "size": ["euclid", "chi2", "kl"],
        "queries": ["base", "cube", "euclid", "chi2"],
        "association": ["EO", "SO", "GO", "ES"],
    }[name]

    def line(row: Row) -> str:
        return " ".join(str(row[k]) for k in ("method", "scope", "estimator") if k in row)

    charts = []
    for figure in figures:
        points = [
            {"x": r[axis], "line": line(r), "y": r[figure]}
            for r in rows
            if figure in r and r.get("l", 1) != 0 and np.isfinite(float(r[figure]))  # type: ignore[arg-type]
        ]
        charts.append(
            alt.Chart(alt.Data(values=points), title=figure)
            .mark_line(point=True)
            .encode(x=alt.X("x:Q", title=axis), y=alt.Y("y:Q", title=None), color=alt.Color("line:N", title=None))
            .properties(width=240, height=180)
        )
    alt.concat(*charts, columns=2).save(str(path))


def main() -> int:
    """Run one comparison."""
    commands = {"distances": distances, "size": size, "queries": queries, "association": association}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.randomized_response", description=__doc__.split("\n")[0]
    )
    parser.add_argument("name", choices=commands)
    parser.add_argument("--out", type=Path, default=Path("build/randomized-response"))
    parser.add_argument("--repeats", type=int, default=8, help="independent releases a figure is averaged over")
    asked = parser.parse_args()
    rows = list(commands[asked.name](asked.repeats))
    asked.out.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(k for row in rows for k in row))
    with (asked.out / f"{asked.name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    widths = {n: max(len(n), *(len(cell(r.get(n, ""))) for r in rows)) for n in names}
    print("  ".join(n.ljust(widths[n]) for n in names))
    for row in rows:
        print("  ".join(cell(row.get(n, "")).ljust(widths[n]) for n in names))
    try:
        plot(asked.name, rows, asked.out / f"{asked.name}.svg")
    except ImportError:
        print("no plot: install the report extra", file=sys.stderr)
    return 0


def cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
