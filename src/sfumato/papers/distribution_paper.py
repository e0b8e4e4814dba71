"""Examples and figures of "Distribution-based Microdata Anonymization" (VLDB 2009)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ..methods.target_distribution.bounds import Bounder, exact_numbers, make_blocks, one_answer
from ..methods.target_distribution.targets import plan
from ..methods.target_distribution.tree import BlockTree, balanced
from .distribution_runs import SEED, AgeTable, BlockSetting, adult, publish, sweep, synthetic
from .findings import DIFFERS, REPRODUCED, Finding, number, rising, trend

TITLE = "Distribution-based Microdata Anonymization"
LOST_FIGURES = "the figures' numbers are lost in the copy at hand: trends only"
ROWS = 2000  # of most synthetic tables; the paper has 10,000: a trend, in seconds


def findings() -> Iterator[Finding]:
    """Every number and trend, in the order of the paper."""
    yield from example()
    yield from real()
    yield from synthetic_tables()


def example() -> Iterator[Finding]:
    """Figures 1 to 4: eleven rows, salaries 30 to 60, uniform target."""
    tree, values = balanced(4), [30, 40, 50, 60]
    true = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 0, 3]])
    weights = np.ones(tree.nodes, dtype=np.int64)
    plans = plan(tree, weights, true)
    asked = {
        "average of the women": ((2, 3, 1), (Fraction(35), Fraction(55))),
        "average of zip 912**": ((0, 3, 0), (Fraction(110, 3), Fraction(160, 3))),
        "average of zip 913**": ((0, 0, 4), (Fraction(35), Fraction(55))),
    }
    for name, (rows, printed) in asked.items():
        yield bounds(f"Figure 2, {name}", plans, tree, values, rows, printed)
    faked = true.copy()
    faked[1, 3] += 1
    yield bounds(
        "Section 5, zip 912** with the fake 60",
        plan(tree, weights, faked),
        tree,
        values,
        (0, 3, 0),
        (Fraction(40), Fraction(50)),
    )


def bounds(item: str, plans: Any, tree: BlockTree, values: list[int], rows: tuple[int, ...], printed: Any) -> Finding:
    """Certain bounds on an average beside the printed ones."""
    bounder = Bounder(make_blocks(tree, plans))
    numbers = exact_numbers(values, int(plans.sum()))
    (found,) = bounder.totals(one_answer(np.array(rows)), numbers)
    low, high = (Fraction(x) / sum(rows) for x in found)
    return Finding(
        item=item,
        published=f"[{printed[0]}K, {printed[1]}K]",
        ours=f"[{low}K, {high}K]",
        verdict=REPRODUCED if (low, high) == printed else DIFFERS,
    )


def line(found: dict[str, Any], name: str) -> list[float]:
    """Errors of one setting by range."""
    return list(found[name]["error"].values())


def shown(values: list[float]) -> str:
    return " ".join(f"{v:.2f}" for v in values)


def real() -> Iterator[Finding]:
    """Figures 5, 6 and 11 on Adult rows with a capital loss."""
    table = adult()
    yield number("Section 6, rows with a capital loss", 1427, len(table.codes), within=0, digits=4)
    yield number("Section 6, different values", 89, len(table.domain), within=0)
    found = sweep(
        table,
        {
            "SA-only": BlockSetting(max_weight=None),
            "QI-SA": BlockSetting(by_age=True),
            "QI-SA +5%": BlockSetting(by_age=True, fakes=Fraction(5, 100)),
        },
    )
    only, both, faked = line(found, "SA-only"), line(found, "QI-SA"), line(found, "QI-SA +5%")
    yield trend(
        "Figures 5 and 6, SA-only, ranges 5 to 60",
        "falls steeply with the range",
        shown(only),
        holds=rising(only[::-1]) and only[0] > 5 * only[-1],
        note=LOST_FIGURES,
    )
    yield trend(
        "Figure 5, QI-SA, ranges 5 to 60",
        "flat, worse than SA-only for wide ranges",
        shown(both),
        holds=both[-1] > only[-1] and max(both) < 2 * min(both),
        note="weights of at most 16 at a node; exact weights put every row at the root",
    )
    yield trend("Figure 5, QI-SA with 5 % fakes", "lower than without", shown(faked), holds=sum(faked) <= sum(both))
    parts = sweep(table, {f"SAonly-{k}": BlockSetting(parts=k, max_weight=None) for k in (1, 2, 10)})
    lines = [line(parts, f"SAonly-{k}") for k in (1, 2, 10)]
    yield trend(
        "Figure 11, SA-only with 1, 2 and 10 parts, mean over ranges",
        "more parts, less error",
        " ".join(f"{np.mean(x):.3f}" for x in lines),
        holds=np.mean(lines[2]) < np.mean(lines[0]),
    )


def synthetic_tables() -> Iterator[Finding]:
    """Figures 5, 7, 8, 9, 10, 12 and 13."""
    rng = np.random.default_rng(SEED)
    pair = {"SA-only": BlockSetting(max_weight=None), "QI-SA": BlockSetting(by_age=True)}
    flat = sweep(synthetic("normal", 10_000, rng), pair, (5, 50))
    near = line(flat, "QI-SA")[0], line(flat, "SA-only")[0]
    yield trend(
        "Figure 5, uncorrelated, range 5",
        "QI-SA below SA-only",
        f"QI-SA {near[0]:.2f}, SA-only {near[1]:.2f}",
        holds=near[0] < near[1],
        note="10,000 rows, weights of at most 16 at a node",
    )
    steep = sweep(synthetic("correlated", ROWS, rng), pair, (5, 50))
    wins = all(a <= b for a, b in zip(line(steep, "SA-only"), line(steep, "QI-SA"), strict=True))
    yield trend(
        "Figure 5, strong correlation",
        "SA-only wins everywhere",
        f"SA-only {shown(line(steep, 'SA-only'))}; QI-SA {shown(line(steep, 'QI-SA'))}",
        holds=wins,
    )
    even = synthetic("uniform", ROWS, rng)
    normal = [_error(even, BlockSetting(target=f"normal(2048,{2048 / r})")) for r in (2, 8, 32)]
    yield trend(
        "Figure 7, normal target, r = 2, 8, 32, SA-only",
        "grows as the target narrows",
        shown(normal),
        holds=rising(normal),
    )
    for figure, kind in ((8, "zipf"), (9, "zipf-correlated")):
        table = synthetic(kind, ROWS, rng)
        skew = [_error(table, BlockSetting(target=f"zipf({s})")) for s in (0.1, 1.0, 2.0)]
        yield trend(
            f"Figure {figure}, zipf target, s = 0.1, 1, 2, SA-only",
            "least where the target is the source",
            shown(skew),
            holds=rising(skew),
        )
    arity = [_error(even, BlockSetting(by_age=True, target="uniform", arity=a)) for a in (2, 3)]
    yield trend(
        "Figure 10, binary and ternary tree, QI-SA", "binary below ternary", shown(arity), holds=arity[0] < arity[1]
    )
    split = [
        _error(synthetic("correlated", ROWS, np.random.default_rng(SEED)), BlockSetting(parts=k, max_weight=None))
        for k in (1, 10)
    ]
    yield trend(
        "Figure 12, correlated, 1 and 10 parts, SA-only",
        "more parts, less error",
        shown(split),
        holds=split[1] < split[0],
        note="targets are the parts' own distributions, not uniform ones on a tree of their own",
    )  # fmt: skip
    times = [publish(synthetic("normal", n, rng), BlockSetting(by_age=True)).seconds for n in (2_000, 200_000)]
    yield trend(
        "Figure 13, run time",
        "linear in the rows",
        f"{times[0]:.3f} s and {times[1]:.3f} s for 2,000 and 200,000 rows",
        holds=times[1] < 200 * max(times[0], 1e-3),
        note="planning sees counts only, so it grows more slowly than the rows",
    )


def _error(table: AgeTable, setting: BlockSetting) -> float:
    return float(sweep(table, {"": setting}, (50,))[""]["error"]["50"])
