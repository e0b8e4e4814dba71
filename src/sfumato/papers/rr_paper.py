"""Tables and figures of "Limiting Attribute Disclosure in Randomization Based Microdata Release" (JCSE 2011)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError
from ..methods.randomized_response.risk import RiskCells, paper_risk, views
from ..stats.association import uncertainty_coefficient
from ..stats.table_distance import base_error, cube_error, euclidean_distance
from . import rr_tables as tables
from .findings import DIFFERS, PAPER, REPRODUCED, Finding, number, percents, rising, trend

TITLE = "Limiting Attribute Disclosure in Randomization Based Microdata Release"
ROWS = "the 30,162 complete training rows, which the published tables were computed on"
TABLE_3: dict[str, dict[int, tuple[float, ...]]] = {
    "qi": {
        2: (0.824, 0.872, 0.920, 0.941),
        3: (0.548, 0.812, 0.898, 0.985),
        4: (0.382, 0.736, 0.918, 0.961),
        5: (0.314, 0.615, 0.873, 0.938),
    },
    "both": {
        2: (0.824, 0.872, 0.920, 0.941, 1.0),
        3: (0.573, 0.821, 0.913, 0.973, 0.955),
        4: (0.428, 0.780, 0.926, 0.953, 0.871),
        5: (0.353, 0.688, 0.902, 0.953, 0.813),
    },
}
RR_S = {2: 0.650, 3: 0.267, 4: 0.217, 5: 0.167}
PAIRS = ("ES", "EG", "ER", "SG", "SR", "GR", "EO", "SO", "GO", "RO")
ORIGINAL = (11.54, 0.68, 1.92, 4.12, 1.07, 1.08, 9.90, 2.74, 4.40, 0.57)
RR_QI = {
    3: (8.57, 0.63, 1.86, 3.65, 0.53, 1.08, 8.72, 2.41, 4.13, 0.54),
    4: (8.05, 0.58, 1.29, 3.37, 0.45, 1.07, 8.33, 2.27, 4.01, 0.51),
    5: (7.50, 0.33, 1.02, 3.15, 0.44, 1.04, 7.77, 2.17, 3.89, 0.50),
}
ANATOMY = {3: (0.90, 0.20, 0.25, 0.06), 4: (0.46, 0.12, 0.08, 0.02), 5: (0.26, 0.05, 0.07, 0.02)}
DIVERSITY = {3: (8.86, 0, 0, 0), 4: (7.91, 2.74, 0, 0), 5: (7.91, 0, 0, 0.37)}
REPEATS = 4
SEED = 7


def findings() -> Iterator[Finding]:
    """Every number and trend, in the order of the paper."""
    yield from table_1()
    yield from table_3()
    yield from figures_3_and_4()
    yield from original()
    yield from esgro()


def table_1() -> Iterator[Finding]:
    """The example of six cells: risk of (female, cancer)."""
    shares = np.array([[0.30, 0.22, 0.20], [0.12, 0.10, 0.06]])
    codes = np.argwhere(shares >= 0)
    cells = RiskCells(codes=codes, true_counts=np.rint(100 * shares.ravel()).astype(np.int64), sizes=(2, 3))
    (view,) = views(cells, quasi=[0], sensitive=[1], randomised=[True, True])
    risks = paper_risk(view, [1.0, 1.0])
    top = float(np.max(risks))
    yield Finding(
        item="Table 1: the risk of an untouched table is the share inside the group",
        published="largest 0.4286 (cell given by the text)",
        ours=f"{top:.4f}",
        verdict=REPRODUCED if abs(top - 0.4286) < 5e-5 else DIFFERS,
        note="the table itself is lost in the copy at hand; 0.12 and 0.28 are forced by the text",
    )


def table_3() -> Iterator[Finding]:
    """Keep probabilities of least error at risk 1/l, EMGRW."""
    names = "EMGRW"
    for scope, published in TABLE_3.items():
        for l, row in published.items():
            found = tables.plan(tables.EMGRW, scope, l)
            for name, printed, ours in zip(names, row, found.keep, strict=False):
                note = ROWS if (l, name) == (2, "E") else ""
                if abs(ours - printed) > 0.0025:
                    note = "the optimum is flat: neighbours on the bound err the same to four digits"
                if (scope, l) == ("qi", 3):
                    note = "the printed row is not optimal: ours has less error at the same risk"
                yield number(f"Table 3, RR-{scope.upper()}, l = {l}: p_{name}", printed, ours, within=0.0025, note=note)
            yield trend(
                f"Table 3, RR-{scope.upper()}, l = {l}: largest risk",
                f"at most 1/{l}",
                f"{float(found.risk):.4f}",
                holds=float(found.risk) <= 1 / l,
            )
    for l, printed in RR_S.items():
        try:
            reached = f"{tables.plan(tables.EMGRW, 's', l).keep[-1]:.3f}"
        except PlanError:
            reached = "cannot be reached"
        note = "283 of 603 cells of the quasi-identifiers hold one value of workclass: their risk is 1 whatever is done"
        yield Finding(
            item=f"Table 3, RR-S, l = {l}: p_W", published=f"{printed:g}", ours=reached, verdict=PAPER, note=note
        )


def figures_3_and_4() -> Iterator[Finding]:
    """Distances of the estimated table, EMGRW."""
    codes, sizes, _ = tables.codes_of(tables.EMGRW)
    true, rng = tables.tensor(codes, sizes), np.random.default_rng(SEED)
    by: dict[str, list[float]] = {}
    for scope in ("qi", "both"):
        keeps = [tables.plan(tables.EMGRW, scope, l).keep for l in (2, 3, 4, 5)]
        by[scope] = [_euclid(true, codes, sizes, keep, rng) for keep in keeps]
    yield trend(
        "Figure 3, RR-QI: distance against l",
        "grows about linearly",
        " ".join(f"{x:.4f}" for x in by["qi"]),
        holds=rising(by["qi"]),
    )
    below = all(b <= 1.1 * q for q, b in zip(by["qi"], by["both"], strict=True))
    yield trend(
        "Figure 3, RR-Both against RR-QI",
        "RR-Both lowest",
        " ".join(f"{x:.4f}" for x in by["both"]),
        holds=below and by["both"][-1] < by["qi"][-1],
    )
    keep = tables.plan(tables.EMGRW, "both", 3).keep
    found = []
    for r in (0.5, 1.0, 2.0):
        sample = codes[rng.integers(0, len(codes), int(r * len(codes)))]
        found.append(_euclid(tables.tensor(sample, sizes), sample, sizes, keep, rng))
    yield trend(
        "Figure 4, RR-Both, l = 3: distance for 0.5, 1 and 2 times the rows",
        "falls with more rows",
        " ".join(f"{x:.4f}" for x in found),
        holds=rising(found[::-1]),
        note="rows resampled with replacement; random samples cannot have exactly the same distribution",
    )


def _euclid(
    true: NDArray[Any], codes: NDArray[Any], sizes: tuple[int, ...], keep: tuple[float, ...], rng: np.random.Generator
) -> float:
    runs = [tables.randomised_tables(codes, sizes, keep, rng)["inverse"] for _ in range(REPEATS)]
    return float(np.mean([euclidean_distance(true, t) for t in runs]))


def two_way(table: NDArray[Any], pair: str) -> NDArray[Any]:
    """The two-way table (X, Y) of two letters of ESGRO; the published G-R has the entropy of G below."""
    x, y = ("ESGRO".index(c) for c in (pair if pair != "GR" else "RG"))
    flat = table.sum(axis=tuple(i for i in range(5) if i not in (x, y)))
    return flat if x < y else flat.T


def association(table: NDArray[Any], pair: str) -> float:
    """100 times the uncertainty coefficient."""
    return 100 * uncertainty_coefficient(two_way(table, pair))


def original() -> Iterator[Finding]:
    """Tables 4 and 5, first rows."""
    codes, sizes, _ = tables.codes_of(tables.ESGRO)
    true = tables.tensor(codes, sizes)
    for pair, printed in zip(PAIRS, ORIGINAL, strict=True):
        where = 4 if pair in PAIRS[:6] else 5
        note = "divided by the entropy of G, unlike the others" if pair == "GR" else ""
        ours = round(association(true, pair), 2)
        yield number(f"Table {where}, original, {pair[0]}-{pair[1]}", printed, ours, within=0.005, note=note)


def esgro() -> Iterator[Finding]:
    """Tables 4 and 5 by method, and figures 5 to 7."""
    codes, sizes, _ = tables.codes_of(tables.ESGRO)
    true, rng = tables.tensor(codes, sizes), np.random.default_rng(SEED)
    errors: dict[str, list[tuple[float, float, float]]] = {"RR-QI": [], "anatomy": [], "l-diversity": []}
    kept: dict[str, list[float]] = {"RR-QI": [], "anatomy": [], "l-diversity": []}
    for l in (3, 4, 5):
        keep = tables.plan(tables.ESGRO, "qi", l).keep
        runs = [tables.randomised_tables(codes, sizes, keep, rng) for _ in range(REPEATS)]
        bucketed = tables.anatomy_table(codes, sizes, l, rng)
        general, levels = tables.diversity_table(tables.ESGRO, l, "entropy")
        for k, pair in enumerate(PAIRS):
            ours = float(np.mean([association(r["inverse"], pair) for r in runs]))
            truth = ORIGINAL[k]
            closer = abs(ours - truth) <= abs(RR_QI[l][k] - truth) + 0.05
            yield Finding(
                item=f"Table {4 if k < 6 else 5}, RR-QI, l = {l}, {pair[0]}-{pair[1]}",
                published=f"{RR_QI[l][k]:g}",
                ours=f"{ours:.2f}",
                verdict=REPRODUCED if abs(ours - RR_QI[l][k]) <= 0.1 else DIFFERS,
                note=f"ours is {'nearer to' if closer else 'farther from'} the original {truth:g}"
                + ("; two-way tables by the plain inverse, the paper clips the full table" if k == 0 else ""),
            )
        for k, pair in enumerate(PAIRS[6:]):
            ours = association(bucketed, pair)
            yield number(
                f"Table 5, anatomy, l = {l}, {pair[0]}-{pair[1]}", ANATOMY[l][k], round(ours, 2), within=0.05,
                note="one release; groups are drawn at random inside the largest buckets",
            )  # fmt: skip
            found = association(general, pair)
            yield number(
                f"Table 5, l-diversity, l = {l}, {pair[0]}-{pair[1]}", DIVERSITY[l][k], round(found, 2), within=0.05,
                note=f"levels {levels}: other hierarchies, another node of least loss",
            )  # fmt: skip
        kept["RR-QI"].append(float(np.mean([association(r["inverse"], p) for r in runs for p in PAIRS[6:]])))
        kept["anatomy"].append(float(np.mean([association(bucketed, p) for p in PAIRS[6:]])))
        kept["l-diversity"].append(float(np.mean([association(general, p) for p in PAIRS[6:]])))
        plain = np.mean([[base_error(true, r["em"]), cube_error(true, r["em"])] for r in runs], axis=0)
        distance = float(np.mean([euclidean_distance(true, r["em"]) for r in runs]))
        errors["RR-QI"].append((float(plain[0]), float(plain[1]), distance))
        for name, table in (("anatomy", bucketed), ("l-diversity", general)):
            errors[name].append((base_error(true, table), cube_error(true, table), euclidean_distance(true, table)))
    for j, (item, what) in enumerate(
        (("Figure 6a, base group-by", "error"), ("Figure 6b, cube", "error"), ("Figure 5, Euclid", "distance"))
    ):
        lines = {name: [e[j] for e in found] for name, found in errors.items()}
        shown = "; ".join(
            f"{name} {percents(v)}" if what == "error" else f"{name} " + " ".join(f"{x:.4f}" for x in v)
            for name, v in lines.items()
        )
        best = all(
            r <= min(a, d) for r, a, d in zip(lines["RR-QI"], lines["anatomy"], lines["l-diversity"], strict=True)
        )
        yield trend(
            f"{item}, l = 3 to 5", f"RR-QI has the least {what}", shown, holds=best, note="RR-QI by EM, entropy l"
        )
    yield trend(
        "Figure 7, mean association of quasi-identifiers with O, l = 3 to 5 (x 100)",
        "RR-QI keeps most",
        "; ".join(f"{name} " + " ".join(f"{x:.2f}" for x in v) for name, v in kept.items()),
        holds=all(r >= max(a, d) for r, a, d in zip(kept["RR-QI"], kept["anatomy"], kept["l-diversity"], strict=True)),
        note="the original mean is 4.40",
    )
