"""Settings of the target-distribution paper: tables, ways to publish them, errors of age-range questions.

The question is always AVG(value) WHERE age BETWEEN X AND X + R; the error is (upper - lower) / truth, averaged over
100 random X.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..datasets import adult as bundled
from ..methods.target_distribution import targets
from ..methods.target_distribution.bounds import Bounder, WholeNumbers, exact_numbers, make_blocks, one_answer
from ..methods.target_distribution.fakes import allowed_fakes, choose_fakes
from ..methods.target_distribution.targets import check_plan, plan
from ..methods.target_distribution.tree import balanced
from ..methods.target_distribution.tree import spans as tree_spans

Array = NDArray[Any]
RANGES = (5, 10, 20, 30, 40, 50, 60)
QUERIES = 100
SEED = 20080609


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
    bounder: Bounder
    value: WholeNumbers
    root_share: float
    distance: float  # total variation between the target asked for and the target used
    cost_share: float  # sum of spans against all blocks at the root
    seconds: float


def publish(table: AgeTable, setting: BlockSetting) -> PublishedBlocks:
    """The blocks of every group; all targets live on one tree over the whole domain."""
    began = time.perf_counter()
    tree = balanced(len(table.domain), arity=setting.arity)
    values = table.domain.tolist()
    spans = tree_spans(tree, values)
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
        target = targets.quantise(tree, masses(setting.target, table, here.sum(axis=0)), max_weight=setting.max_weight)
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
        plans[mine] = plan(tree, target.weights, here)
        check_plan(tree, target.weights, plans[mine], here, sizes=here.sum(axis=1))
    return PublishedBlocks(
        group=group,
        bounder=Bounder(make_blocks(tree, plans)),
        value=exact_numbers(values, int(plans.sum())),
        root_share=float(plans[:, 0].sum() / plans.sum()),
        distance=distance,
        cost_share=float((plans @ spans).sum() / (plans.sum() * spans[0])),
        seconds=time.perf_counter() - began,
    )


def masses(target: str, table: AgeTable, source: Array) -> Any:
    """The masses a target text stands for."""
    kind, numbers = targets.parse_target(target)
    if kind == "source":
        return source.tolist()
    if kind == "uniform":
        return targets.uniform_masses(len(table.domain))
    if kind == "zipf":
        return targets.zipf_masses(len(table.domain), numbers[0])
    return targets.normal_masses(table.domain.tolist(), *numbers)


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
        selected = one_answer(np.bincount(published.group[rows], minlength=published.bounder.blocks.groups))
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
