"""The experiments of "Distribution-based Microdata Anonymization" on Adult and on synthetic tables.

    SFUMATO_DATA=<folder with adult.parquet> python benchmarks/target_distribution.py [--out FOLDER] [--quick]

Prints one table per experiment and writes results.json and one SVG per experiment to FOLDER. The question is always
AVG(value) WHERE age BETWEEN X AND X + R; the error is (upper - lower) / truth, averaged over 100 random X.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sfumato.stats import block_bounds, blocktree, targets, transform
from sfumato.stats.fake_choice import allowed_fakes, choose_fakes

RANGES = (5, 10, 20, 30, 40, 50, 60)
QUERIES = 100
SEED = 20080609


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of (age, value); values are coded by their place in the domain."""

    age: np.ndarray
    codes: np.ndarray
    domain: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way to publish: groups of rows, the part whose distribution is the target, and the knobs."""

    by_age: bool = False  # QI-SA: every age is a group of its own
    parts: int = 1  # the table is first cut by age into this many parts with targets of their own
    target: str = "source"  # source, uniform, normal(mean,sd), zipf(s)
    fakes: Fraction = Fraction(0)
    arity: int = 2
    max_weight: int | None = 16
    rule: str = "width"


def adult() -> Table:
    """Adult rows with a capital loss among the complete training rows: 1,427 rows, 89 values."""
    table = pq.read_table(Path(os.environ["SFUMATO_DATA"]) / "adult.parquet").slice(0, 32_561)
    complete = np.ones(table.num_rows, dtype=bool)
    for column in table.columns:
        complete &= ~column.is_null().to_numpy(zero_copy_only=False)
    age, loss = table["age"].to_numpy(), table["capital_loss"].to_numpy()
    keep = complete & (loss > 0)
    domain, codes = np.unique(loss[keep], return_inverse=True)
    assert (keep.sum(), len(domain)) == (1427, 89)
    return Table(age=age[keep], codes=codes, domain=domain)


def synthetic(kind: str, rows: int, rng: np.random.Generator) -> Table:
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
        return Table(age=age, codes=codes, domain=domain)
    else:
        raise ValueError(kind)
    codes = np.clip(np.rint((values - domain[0]) / (domain[1] - domain[0])), 0, len(domain) - 1).astype(int)
    return Table(age=age, codes=codes, domain=domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a setting made of a table."""

    group: np.ndarray  # of every row
    bounder: block_bounds.Bounder
    value: block_bounds.Numbers
    root_share: float
    distance: float  # total variation between the target asked for and the target used
    cost_share: float  # sum of spans against all blocks at the root
    seconds: float


def publish(table: Table, setting: Setting) -> Published:
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
                rule=setting.rule,  # type: ignore[arg-type]
            )
            here = here + choice.fakes
        plans[mine] = transform.plan(tree, target.weights, here)
        transform.check_plan(tree, target.weights, plans[mine], here, sizes=here.sum(axis=1))
    return Published(
        group=group,
        bounder=block_bounds.Bounder(block_bounds.make_blocks(tree, plans)),
        value=block_bounds.exact_numbers(values, int(plans.sum())),
        root_share=float(plans[:, 0].sum() / plans.sum()),
        distance=distance,
        cost_share=float((plans @ spans).sum() / (plans.sum() * spans[0])),
        seconds=time.perf_counter() - began,
    )


def masses(target: str, table: Table, source: np.ndarray) -> Any:
    """The masses a target text stands for."""
    kind, numbers = targets.parse_target(target)
    if kind == "source":
        return source.tolist()
    if kind == "uniform":
        return targets.uniform_masses(len(table.domain))
    if kind == "zipf":
        return targets.zipf_masses(len(table.domain), numbers[0])
    return targets.normal_masses(table.domain.tolist(), *numbers)


def errors(table: Table, published: Published, width: int, rng: np.random.Generator) -> list[float]:
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


def sweep(table: Table, settings: dict[str, Setting], ranges: tuple[int, ...] = RANGES) -> dict[str, Any]:
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


def experiments(quick: bool) -> dict[str, Any]:
    """Every experiment of the paper's section 6, by figure."""
    rng = np.random.default_rng(SEED)
    real, n = adult(), 2_000 if quick else 10_000
    flat, steep, even = (synthetic(kind, n, rng) for kind in ("normal", "correlated", "uniform"))
    both = {"SA-only": Setting(max_weight=None), "QI-SA": Setting(by_age=True)}
    shares = (0, 5, 10, 20)
    with_fakes = {
        f"{name} +{x}%": Setting(by_age=name == "QI-SA", fakes=Fraction(x, 100))
        for name in ("QI-SA", "SA-only")
        for x in shares
    }
    out: dict[str, Any] = {
        "adult": sweep(
            real,
            {
                **both,
                "QI-SA w8": Setting(by_age=True, max_weight=8),
                "QI-SA exact": Setting(by_age=True, max_weight=None),
            },
        ),
        "uncorrelated": sweep(flat, both),
        "correlated": sweep(steep, both),
        "fakes-adult": sweep(real, with_fakes),
        "fakes-adult-paper-rule": sweep(
            real, {k: Setting(by_age=s.by_age, fakes=s.fakes, rule="paper") for k, s in with_fakes.items()}
        ),
        "fakes-uncorrelated": sweep(flat, with_fakes),
        "fakes-correlated": sweep(steep, with_fakes),
    }
    sd = {f"sd {2048 / r:.0f}": f"normal(2048,{2048 / r})" for r in (2, 4, 8, 16, 32)}
    out["target-normal"] = sweep(even, _pairs(sd), (50,))
    skew = {f"s {s}": f"zipf({s})" for s in (0.1, 0.5, 1.0, 1.5, 2.0)}
    out["target-zipf"] = sweep(synthetic("zipf", n, rng), _pairs(skew), (50,))
    out["target-zipf-correlated"] = sweep(synthetic("zipf-correlated", n, rng), _pairs(skew), (50,))
    out["arity"] = sweep(
        even,
        {
            f"{name} ({a})": Setting(by_age=name == "QI-SA", target="uniform", arity=a)
            for a in (2, 3)
            for name in ("SA-only", "QI-SA")
        },
    )
    out["parts-adult"] = sweep(
        real,
        {f"{name}-{k}": Setting(by_age=name == "QISA", parts=k) for name in ("SAonly", "QISA") for k in (1, 2, 10)},
    )
    out["parts-adult-exact"] = sweep(real, {f"SAonly-{k}": Setting(parts=k, max_weight=None) for k in (1, 2, 10)})
    out["work-limit"] = work_limit(real, even)
    out["run-time"] = run_time((1_000, 10_000, 100_000) if quick else (1_000, 10_000, 100_000, 1_000_000), rng)
    return out


def _pairs(texts: dict[str, str]) -> dict[str, Setting]:
    return {
        f"{name} {label}": Setting(by_age=name == "QI-SA", target=text)
        for label, text in texts.items()
        for name in ("SA-only", "QI-SA")
    }


def work_limit(*tables: Table) -> dict[str, Any]:
    """How much wider the bounds on the total get when the work limit lowers the number of fakes tried."""
    rows = {}
    for name, table in zip(("adult", "uniform"), tables, strict=True):
        tree = blocktree.balanced(len(table.domain))
        spans = blocktree.spans(tree, table.domain.tolist())
        ends = table.domain[tree.start].astype(float), table.domain[tree.stop - 1].astype(float)
        true = np.bincount(table.codes, minlength=len(table.domain))[None]
        target = targets.quantise(tree, targets.zipf_masses(len(table.domain), Fraction(1, 10)))
        allowed = np.minimum(allowed_fakes(true.sum(axis=1), Fraction(1, 5)), 240)
        widths: dict[str, float] = {}
        for share in (1, 2, 4, 8, 16):
            capped = allowed // share
            choice = choose_fakes(tree, target.weights, true, spans=spans, ends=ends, allowed=capped, work_limit=10**12)
            plans = transform.plan(tree, target.weights, true + choice.fakes)
            widths[str(share)] = float(transform.bound_width(plans, *ends, true.sum(axis=1))[0])
        none = transform.plan(tree, target.weights, true)
        rows[name] = {
            "fakes_allowed": int(allowed[0]),
            "error": {f"t/{k}": round(w / widths["1"], 4) for k, w in widths.items()}
            | {"0": round(float(transform.bound_width(none, *ends, true.sum(axis=1))[0]) / widths["1"], 4)},
            "root_share": 0.0,
            "distance": float(target.distance),
        }
    return rows


def run_time(sizes: tuple[int, ...], rng: np.random.Generator) -> dict[str, Any]:
    """Seconds from coded rows to checked plans, by number of rows."""
    return {
        name: {"seconds": {str(n): round(publish(synthetic("normal", n, rng), setting).seconds, 4) for n in sizes}}
        for name, setting in {"SA-only": Setting(), "QI-SA": Setting(by_age=True)}.items()
    }


def draw(results: dict[str, Any], folder: Path) -> None:
    """One SVG per experiment: error (or seconds) against the range (or the number of rows)."""
    import altair as alt

    for name, rows in results.items():
        if name == "work-limit":
            continue
        across = "rows" if name == "run-time" else "age range"
        what = "seconds" if name == "run-time" else "relative error"
        points = [
            {"setting": setting, across: int(x), what: y}
            for setting, row in rows.items()
            for x, y in row["seconds" if name == "run-time" else "error"].items()
        ]
        single = len({p[across] for p in points}) == 1
        chart = alt.Chart(alt.Data(values=points), title=name).properties(width=420, height=260)
        if single:
            chart = chart.mark_bar().encode(x=alt.X("setting:N", sort=None), y=f"{what}:Q", color="setting:N")
        else:
            scale = alt.Scale(type="log" if name == "run-time" else "linear")
            chart = chart.mark_line(point=True).encode(
                x=alt.X(f"{across}:Q", scale=scale),
                y=alt.Y(f"{what}:Q", scale=scale),
                color=alt.Color("setting:N", sort=None),
            )
        chart.save(str(folder / f"{name}.svg"))


def show(results: dict[str, Any]) -> None:
    """One plain table per experiment."""
    for name, rows in results.items():
        columns = list(next(iter(rows.values()))["seconds" if name == "run-time" else "error"])
        print(f"\n{name}\n{'':24}" + "".join(f"{c:>9}" for c in columns))
        for setting, row in rows.items():
            cells = row["seconds" if name == "run-time" else "error"]
            extra = "" if name == "run-time" else f"   root {row['root_share']:.2f}  TV {row['distance']:.3f}"
            print(f"{setting:24}" + "".join(f"{v:9.3f}" for v in cells.values()) + extra)


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=None, help="folder for results.json and the plots")
    parser.add_argument("--quick", action="store_true", help="smaller synthetic tables")
    arguments = parser.parse_args()
    if "SFUMATO_DATA" not in os.environ:
        print("set SFUMATO_DATA to the folder that holds adult.parquet", file=sys.stderr)
        return 2
    results = experiments(arguments.quick)
    show(results)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        draw(results, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
