"""Examples and figures of "Distribution-based Microdata Anonymization" (VLDB 2009).

The question of its figures is always AVG(value) WHERE age BETWEEN X AND X + R; the error is (upper - lower) / truth,
averaged over 100 random X.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from papers.findings import DIFFERS, REPRODUCED, Finding, number, rising, trend
from sfumato.datasets import adult as bundled
from sfumato.laws import block_bounds, block_tree
from sfumato.laws import block_tree as blocktree
from sfumato.methods.target_distribution import plan
from sfumato.methods.target_distribution.fakes import allowed_fakes, choose_fakes

TITLE = "Distribution-based Microdata Anonymization"
LOST_FIGURES = "the figures' numbers are lost in the copy at hand: trends only"
ROWS = 2000  # of most synthetic tables; the paper has 10,000: a trend, in seconds
Array = NDArray[Any]
RANGES = (5, 10, 20, 30, 40, 50, 60)
QUERIES = 100
SEED = 20080609


def findings() -> Iterator[Finding]:
    """Every number and trend, in the order of the paper."""
    yield from example()
    yield from real()
    yield from synthetic_tables()


def example() -> Iterator[Finding]:
    """Figures 1 to 4: eleven rows, salaries 30 to 60, uniform target."""
    tree, values = blocktree.balanced(4), [30, 40, 50, 60]
    true = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 0, 3]])
    weights = np.ones(tree.nodes, dtype=np.int64)
    plans = block_tree.plan(tree, weights, true)
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
        block_tree.plan(tree, weights, faked),
        tree,
        values,
        (0, 3, 0),
        (Fraction(40), Fraction(50)),
    )


def bounds(
    item: str, plans: Any, tree: blocktree.BlockTree, values: list[int], rows: tuple[int, ...], printed: Any
) -> Finding:
    """Certain bounds on an average beside the printed ones."""
    bounder = block_bounds.Bounder(block_bounds.make_blocks(tree, plans))
    numbers = block_bounds.exact_numbers(values, int(plans.sum()))
    (found,) = bounder.totals(block_bounds.one_answer(np.array(rows)), numbers)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeTable:
    """Rows of (age, value); values are coded by their place in the domain."""

    age: Array
    codes: Array
    domain: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSetting:
    """One way to publish: groups of rows, the part whose distribution is the target, and the knobs."""

    by_age: bool = False  # QI-SA: every age is a group of its own
    parts: int = 1  # the table is first cut by age into this many parts with targets of their own
    target: str = "source"  # source, uniform, normal(mean,sd), zipf(s)
    fakes: Fraction = Fraction(0)
    arity: int = 2
    max_weight: int | None = 16
    rule: Literal["width", "paper"] = "width"


def adult() -> AgeTable:
    """Adult rows with a capital loss among the complete training rows: 1,427 rows, 89 values."""
    table = bundled().slice(0, 32_561)
    complete = np.ones(table.num_rows, dtype=bool)
    for column in table.columns:
        complete &= ~column.is_null().to_numpy(zero_copy_only=False)
    age, loss = table["age"].to_numpy(), table["capital_loss"].to_numpy()
    keep = complete & (loss > 0)
    domain, codes = np.unique(loss[keep], return_inverse=True)
    assert (keep.sum(), len(domain)) == (1427, 89)
    return AgeTable(age=age[keep], codes=codes, domain=domain)


def synthetic(kind: str, rows: int, rng: np.random.Generator) -> AgeTable:
    """10,000 rows as the paper describes them: ages 17-79, values normal, correlated, uniform or zipf."""
    age = rng.integers(17, 80, rows)
    if kind == "normal":
        domain = np.arange(1024, 3073, 32)
        values = rng.normal(2048, 300, rows)
    elif kind == "correlated":
        domain = np.arange(1024, 3073, 32)
        values = rng.normal(1200 + (age - 17) * 27, 150)
    elif kind == "uniform":
        domain = np.arange(1024, 3073, 8)
        values = rng.uniform(1024, 3073, rows)
    elif kind in ("zipf", "zipf-correlated"):
        domain = np.arange(1024, 3073, 32)
        mass = np.arange(1, len(domain) + 1) ** -0.1
        codes = rng.choice(len(domain), rows, p=mass / mass.sum())
        if kind == "zipf-correlated":
            age = np.clip(17 + np.rint(codes / len(domain) * 62 + rng.normal(0, 4, rows)), 17, 79).astype(int)
        return AgeTable(age=age, codes=codes, domain=domain)
    else:
        raise ValueError(kind)
    codes = np.clip(np.rint((values - domain[0]) / (domain[1] - domain[0])), 0, len(domain) - 1).astype(int)
    return AgeTable(age=age, codes=codes, domain=domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBlocks:
    """What a setting made of a table."""

    group: Array  # of every row
    bounder: block_bounds.Bounder
    value: block_bounds.WholeNumbers
    root_share: float
    distance: float  # total variation between the target asked for and the target used
    cost_share: float  # sum of spans against all blocks at the root
    seconds: float


def publish(table: AgeTable, setting: BlockSetting) -> PublishedBlocks:
    """The blocks of every group; all targets live on one tree over the whole domain."""
    began = time.perf_counter()
    tree = blocktree.balanced(len(table.domain), arity=setting.arity)
    values = table.domain.tolist()
    spans = blocktree.spans(tree, values)
    ends = table.domain[tree.start].astype(float), table.domain[tree.stop - 1].astype(float)
    edges = np.quantile(table.age, np.linspace(0, 1, setting.parts + 1)[1:-1], method="inverted_cdf")
    part = np.searchsorted(edges, table.age, side="left")
    key = part * 1000 + (table.age if setting.by_age else 0)
    keys, group = np.unique(key, return_inverse=True)
    true = np.zeros((len(keys), len(values)), dtype=np.int64)
    np.add.at(true, (group, table.codes), 1)
    plans = np.zeros((len(keys), tree.nodes), dtype=np.int64)
    distance = 0.0
    for p in range(setting.parts):
        mine = keys // 1000 == p
        here = true[mine]
        target = plan.quantise(tree, masses(setting.target, table, here.sum(axis=0)), max_weight=setting.max_weight)
        distance = max(distance, float(target.distance))
        if setting.fakes:
            choice = choose_fakes(
                tree,
                target.weights,
                here,
                spans=spans,
                ends=ends,
                allowed=allowed_fakes(here.sum(axis=1), setting.fakes),
                rule=setting.rule,
            )
            here = here + choice.fakes
        plans[mine] = block_tree.plan(tree, target.weights, here)
        block_tree.check_plan(tree, target.weights, plans[mine], here, sizes=here.sum(axis=1))
    return PublishedBlocks(
        group=group,
        bounder=block_bounds.Bounder(block_bounds.make_blocks(tree, plans)),
        value=block_bounds.exact_numbers(values, int(plans.sum())),
        root_share=float(plans[:, 0].sum() / plans.sum()),
        distance=distance,
        cost_share=float((plans @ spans).sum() / (plans.sum() * spans[0])),
        seconds=time.perf_counter() - began,
    )


def masses(target: str, table: AgeTable, source: Array) -> Any:
    """The masses a target text stands for."""
    kind, numbers = plan.parse_target(target)
    if kind == "source":
        return source.tolist()
    if kind == "uniform":
        return plan.uniform_masses(len(table.domain))
    if kind == "zipf":
        return plan.zipf_masses(len(table.domain), numbers[0])
    return plan.normal_masses(table.domain.tolist(), *numbers)


def errors(table: AgeTable, published: PublishedBlocks, width: int, rng: np.random.Generator) -> list[float]:
    """Relative errors of 100 random age ranges of the given width; every bound is checked against the truth."""
    low, high = int(table.age.min()), int(table.age.max())
    values = table.domain[table.codes]
    out: list[float] = []
    while len(out) < QUERIES:
        start = int(rng.integers(low, high - width + 1))
        rows = (table.age >= start) & (table.age <= start + width)
        if not rows.any():
            continue
        truth = Fraction(int(values[rows].sum()), int(rows.sum()))
        selected = block_bounds.one_answer(
            np.bincount(published.group[rows], minlength=published.bounder.blocks.groups)
        )
        (found,) = published.bounder.totals(selected, published.value)
        least, most = found[0] / int(rows.sum()), found[1] / int(rows.sum())
        assert least <= truth <= most
        out.append(float((most - least) / truth))
    return out


def sweep(table: AgeTable, settings: dict[str, BlockSetting], ranges: tuple[int, ...] = RANGES) -> dict[str, Any]:
    """Mean error by range for every setting, with what the setting published."""
    rows = {}
    for name, setting in settings.items():
        published = publish(table, setting)
        rng = np.random.default_rng(SEED)
        rows[name] = {
            "error": {str(r): round(float(np.mean(errors(table, published, r, rng))), 4) for r in ranges},
            "root_share": round(published.root_share, 4),
            "cost_share": round(published.cost_share, 4),
            "distance": round(published.distance, 4),
            "seconds": round(published.seconds, 3),
        }
    return rows
