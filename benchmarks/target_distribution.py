"""The experiments of "Distribution-based Microdata Anonymization" on Adult and on synthetic tables.

    python -m benchmarks.target_distribution [--out FOLDER] [--quick]

Prints one table per experiment and writes results.json and one SVG per experiment to FOLDER. The question is always
AVG(value) WHERE age BETWEEN X AND X + R; the error is (upper - lower) / truth, averaged over 100 random X.
"""

from __future__ import annotations

import argparse
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from papers.distribution import SEED, AgeTable, BlockSetting, adult, publish, sweep, synthetic

from sfumato.laws import block_tree
from sfumato.laws import block_tree as blocktree
from sfumato.methods.target_distribution import plan
from sfumato.methods.target_distribution.fakes import allowed_fakes, choose_fakes


def experiments(quick: bool) -> dict[str, Any]:
    """Every experiment of the paper's section 6, by figure."""
    rng = np.random.default_rng(SEED)
    real, n = adult(), 2_000 if quick else 10_000
    flat, steep, even = (synthetic(kind, n, rng) for kind in ("normal", "correlated", "uniform"))
    both = {"SA-only": BlockSetting(max_weight=None), "QI-SA": BlockSetting(by_age=True)}
    shares = (0, 5, 10, 20)
    with_fakes = {
        f"{name} +{x}%": BlockSetting(by_age=name == "QI-SA", fakes=Fraction(x, 100))
        for name in ("QI-SA", "SA-only")
        for x in shares
    }
    out: dict[str, Any] = {
        "adult": sweep(
            real,
            {
                **both,
                "QI-SA w8": BlockSetting(by_age=True, max_weight=8),
                "QI-SA exact": BlockSetting(by_age=True, max_weight=None),
            },
        ),
        "uncorrelated": sweep(flat, both),
        "correlated": sweep(steep, both),
        "fakes-adult": sweep(real, with_fakes),
        "fakes-adult-paper-rule": sweep(
            real, {k: BlockSetting(by_age=s.by_age, fakes=s.fakes, rule="paper") for k, s in with_fakes.items()}
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
            f"{name} ({a})": BlockSetting(by_age=name == "QI-SA", target="uniform", arity=a)
            for a in (2, 3)
            for name in ("SA-only", "QI-SA")
        },
    )
    out["parts-adult"] = sweep(
        real,
        {
            f"{name}-{k}": BlockSetting(by_age=name == "QISA", parts=k)
            for name in ("SAonly", "QISA")
            for k in (1, 2, 10)
        },
    )
    out["parts-adult-exact"] = sweep(real, {f"SAonly-{k}": BlockSetting(parts=k, max_weight=None) for k in (1, 2, 10)})
    out["work-limit"] = work_limit(real, even)
    out["run-time"] = run_time((1_000, 10_000, 100_000) if quick else (1_000, 10_000, 100_000, 1_000_000), rng)
    return out


def _pairs(texts: dict[str, str]) -> dict[str, BlockSetting]:
    return {
        f"{name} {label}": BlockSetting(by_age=name == "QI-SA", target=text)
        for label, text in texts.items()
        for name in ("SA-only", "QI-SA")
    }


def work_limit(*tables: AgeTable) -> dict[str, Any]:
    """How much wider the bounds on the total get when the work limit lowers the number of fakes tried."""
    rows = {}
    for name, table in zip(("adult", "uniform"), tables, strict=True):
        tree = blocktree.balanced(len(table.domain))
        spans = blocktree.spans(tree, table.domain.tolist())
        ends = table.domain[tree.start].astype(float), table.domain[tree.stop - 1].astype(float)
        true = np.bincount(table.codes, minlength=len(table.domain))[None]
        target = plan.quantise(tree, plan.zipf_masses(len(table.domain), Fraction(1, 10)))
        allowed = np.minimum(allowed_fakes(true.sum(axis=1), Fraction(1, 5)), 240)
        widths: dict[str, float] = {}
        for share in (1, 2, 4, 8, 16):
            capped = allowed // share
            choice = choose_fakes(tree, target.weights, true, spans=spans, ends=ends, allowed=capped, work_limit=10**12)
            plans = block_tree.plan(tree, target.weights, true + choice.fakes)
            widths[str(share)] = float(block_tree.bound_width(plans, *ends, true.sum(axis=1))[0])
        none = block_tree.plan(tree, target.weights, true)
        rows[name] = {
            "fakes_allowed": int(allowed[0]),
            "error": {f"t/{k}": round(w / widths["1"], 4) for k, w in widths.items()}
            | {"0": round(float(block_tree.bound_width(none, *ends, true.sum(axis=1))[0]) / widths["1"], 4)},
            "root_share": 0.0,
            "distance": float(target.distance),
        }
    return rows


def run_time(sizes: tuple[int, ...], rng: np.random.Generator) -> dict[str, Any]:
    """Seconds from coded rows to checked plans, by number of rows."""
    return {
        name: {"seconds": {str(n): round(publish(synthetic("normal", n, rng), setting).seconds, 4) for n in sizes}}
        for name, setting in {"SA-only": BlockSetting(), "QI-SA": BlockSetting(by_age=True)}.items()
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
    results = experiments(arguments.quick)
    show(results)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        draw(results, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
