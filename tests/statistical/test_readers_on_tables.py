"""Readers on real tables, every method: the figures of the readers histogram and linking, found again by pandas.

Only what a plan states and its report are taken from the product. Anatomy and target-distribution are looked at on
20,000 rows: their groups are walked through one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import sfumato as sf
from sfumato.choosing.measure import trial
from sfumato.methods import REGISTRY
from sfumato.model.public import Claim
from sfumato.publish import Prepared, prepare
from sfumato.publishing.randomness import Secret

pytestmark = pytest.mark.slow
TABLES = {
    "adult": ("occupation", ["sex", "education"]),
    "diabetes130": ("time_in_hospital", ["gender", "age"]),
    "census_like_acs2018": ("occupation", ["gender", "education", "race"]),
}


def table_of(name: str, folder: Path | None) -> pd.DataFrame:
    if name == "adult":
        return sf.datasets.adult().to_pandas()
    assert folder is not None
    return pd.read_parquet(folder / f"{name}.parquet")


def looked_at(frame: pd.DataFrame, sensitive: str, rho1: float) -> pd.Index:
    share = frame[sensitive].value_counts() / len(frame)
    return share[share <= rho1].index


def posterior(counts: pd.Series, keep: float, other: float, looked: pd.Index) -> float:
    """The worst output of a value channel for one prior, given as counts."""
    total, mine = counts.sum(), counts[counts.index.isin(looked)]
    return float((mine * keep / (mine * keep + (total - mine) * other)).max()) if len(mine) else 0.0


def check(found: Prepared, frame: pd.DataFrame, sensitive: str, quasi: list[str], channels: Any) -> None:
    """`channels(counts)` gives (counts that a part holds, keep, other) for the prior `counts`."""
    said = {r["reader"]: r["posterior"] for r in found.report()["readers"]}
    looked = looked_at(frame, sensitive, float(found.planned.public.rho1))
    whole = frame[sensitive].value_counts()
    assert said["histogram"] == pytest.approx(
        max(posterior(c, k, o, looked) for c, k, o in channels(whole)), abs=1.1e-6
    )
    worst = 0.0
    for _, cell in frame.groupby(quasi, dropna=False)[sensitive]:
        worst = max(worst, *(posterior(c, k, o, looked) for c, k, o in channels(cell.value_counts())))
    assert said["linking"] == pytest.approx(worst, abs=1.1e-6)


@pytest.mark.parametrize("name", list(TABLES))
def test_channels_of_a_real_table(name: str, request: pytest.FixtureRequest) -> None:
    folder = None if name == "adult" else request.getfixturevalue("data_dir")
    sensitive, quasi = TABLES[name]
    frame = table_of(name, folder)[[sensitive, *quasi]].copy()
    frame[sensitive] = frame[sensitive].astype(object).where(frame[sensitive].notna(), "(missing)").astype(str)
    roles = sf.Roles(sensitive=sensitive, quasi=tuple(quasi))
    for method in ("uniform", "small-domain"):
        shown = {"report": "value"} if method == "small-domain" else {}
        spec = REGISTRY[method].spec(rho1="1/6", rho2="1/3", **shown)
        found = prepare(frame, roles=roles, method=spec, secret=Secret.from_seed(1))
        law = found.planned.law
        if method == "uniform":
            keep = float(law.gammas[0] / (law.gammas[0] + law.values - 1))
            other = (1 - keep) / (law.values - 1)
            check(found, frame, sensitive, quasi, lambda c, k=keep, o=other: [(c, k, o)])
            continue
        whole = frame[sensitive].value_counts()
        subs = found.report()["sub_tables"]
        parts = []
        for i, sub in enumerate(subs):
            held = pd.Series(sub["counts"], index=sub["domain"])
            gamma, m = float(law.gammas[i]), len(held)
            parts.append((held / whole.reindex(held.index), gamma / (gamma + m - 1), 1 / (gamma + m - 1)))

        def channels(counts: pd.Series, parts: Any = parts) -> list[Any]:
            found = []
            for share, keep, other in parts:
                inside = (counts.reindex(share.index).fillna(0) * share).loc[lambda s: s > 0]
                if len(inside):
                    found.append((inside, keep, other))
            return found

        check(found, frame, sensitive, quasi, channels)


def read(name: str, request: pytest.FixtureRequest, rows: int | None = None) -> tuple[pd.DataFrame, sf.Roles]:
    """The columns that are looked at, gaps as a value of their own, and their roles."""
    folder = None if name == "adult" else request.getfixturevalue("data_dir")
    sensitive, quasi = TABLES[name]
    frame = table_of(name, folder)[[sensitive, *quasi]].copy()
    frame[sensitive] = frame[sensitive].astype(object).where(frame[sensitive].notna(), "(missing)").astype(str)
    if rows is not None:
        frame = frame.sample(rows, random_state=1)
    return frame, sf.Roles(sensitive=sensitive, quasi=tuple(quasi))


def reached(found: Prepared, rho1: str) -> dict[str, float]:
    claim = Claim(rho1=Fraction(rho1), rho2=Fraction(1, 3))
    return {r["reader"]: r["posterior"] for r in found.readers(claim)["readers"]}


def worst_in_cells(frame: pd.DataFrame, roles: sf.Roles, of_cell: Callable[[Any, dict[Any, float]], float]) -> float:
    """The largest of `of_cell(quasi-identifiers, shares of the sensitive values)` over the cells."""
    cells = frame.groupby(list(roles.quasi), dropna=False)[roles.sensitive[0]]
    return max(of_cell(key, cell.value_counts(normalize=True).to_dict()) for key, cell in cells)


@pytest.mark.parametrize("name", list(TABLES))
@pytest.mark.parametrize("method", ["randomized-response", "distribution-draw"])
def test_single_channels_of_a_real_table(name: str, method: str, request: pytest.FixtureRequest) -> None:
    frame, roles = read(name, request)
    sensitive = roles.sensitive[0]
    whole = frame[sensitive].value_counts(normalize=True)
    looked = set(looked_at(frame, sensitive, 1 / 6))
    if method == "distribution-draw":
        found = prepare(frame, roles=roles, method=sf.DistributionDraw(), secret=Secret.from_seed(1))
        keep, other = None, None
    else:
        spec = sf.RandomizedResponse(keep={sensitive: "0.2"})
        found = prepare(frame, roles=roles, method=spec, secret=Secret.from_seed(1))
        keep, other = 0.2, 0.8 / (len(whole) - 1)

    def largest(prior: dict[Any, float]) -> float:
        mine = [p for v, p in prior.items() if v in looked]
        if keep is None:  # what is shown has nothing to do with the record
            return max(mine, default=0.0)
        return max((p * keep / (p * keep + (1 - p) * other) for p in mine), default=0.0)

    said = reached(found, "1/6")
    assert said["histogram"] == pytest.approx(largest(whole.to_dict()), abs=1.1e-6)
    assert said["linking"] == pytest.approx(worst_in_cells(frame, roles, lambda _, p: largest(p)), abs=1.1e-6)


@pytest.mark.parametrize("name", list(TABLES))
def test_sets_of_a_real_table(name: str, request: pytest.FixtureRequest) -> None:
    frame, roles = read(name, request)
    sensitive = roles.sensitive[0]
    found = prepare(frame, roles=roles, method=sf.SubsetResponse(rho1="1/6", rho2="1/3"), secret=Secret.from_seed(1))
    law = found.planned.public.channel.matrix()  # P(set | value), a row for every set
    names = [v[0] for v in found.profile.domains[0].values]
    looked = np.isin(names, list(looked_at(frame, sensitive, 1 / 6)))

    def largest(prior: dict[Any, float]) -> float:
        joint = law * np.array([prior.get(v, 0.0) for v in names])
        return float((joint / joint.sum(axis=1, keepdims=True))[:, looked].max())

    whole = frame[sensitive].value_counts(normalize=True).to_dict()
    said = reached(found, "1/6")
    assert said["histogram"] == pytest.approx(largest(whole), abs=1.1e-6)
    assert said["linking"] == pytest.approx(worst_in_cells(frame, roles, lambda _, p: largest(p)), abs=1.1e-6)


@pytest.mark.parametrize("name", list(TABLES))
def test_groups_of_anatomy_on_a_real_table(name: str, request: pytest.FixtureRequest) -> None:
    frame, roles = read(name, request, rows=20_000)
    sensitive = roles.sensitive[0]
    found = prepare(frame, roles=roles, method=sf.Anatomy(l=3), secret=Secret.from_seed(1))
    names = [v[0] for v in found.profile.domains[0].values]
    side = found.planned.work.side
    members = pd.Series(side["unit0"]).map(names.__getitem__).groupby(side["group_id"]).agg(lambda g: tuple(sorted(g)))
    groups = {tuple(g) for g in members}
    assert all(len(set(g)) == len(g) for g in groups)
    counts = frame[sensitive].value_counts()
    looked = set(looked_at(frame, sensitive, 1 / 6))
    said = reached(found, "1/6")
    assert said["histogram"] == pytest.approx(1 / min(len(g) for g in groups if looked & set(g)), abs=1.1e-6)

    def largest(_: Any, prior: dict[Any, float]) -> float:
        weight = {v: p / counts[v] for v, p in prior.items()}
        worst = 0.0
        for group in groups:
            mine = {v: weight[v] for v in group if v in weight}
            total = sum(mine.values())
            worst = max(worst, *(w / total for v, w in mine.items() if v in looked), 0.0)
        return worst

    assert said["linking"] == pytest.approx(worst_in_cells(frame, roles, largest), abs=1.1e-6)


@pytest.mark.parametrize("name", list(TABLES))
def test_classes_of_a_real_table(name: str, request: pytest.FixtureRequest) -> None:
    frame, roles = read(name, request)
    sensitive = roles.sensitive[0]
    found = prepare(frame, roles=roles, method=sf.LDiversity(l=2, suppression="0.05"), secret=Secret.from_seed(1))
    with trial(found, Secret.from_seed(2)) as release:
        published = pd.read_parquet(release.path / "data.parquet")
    shares = published.groupby(list(roles.quasi), dropna=False)[sensitive].value_counts(normalize=True)
    looked = looked_at(frame, sensitive, 1 / 6)
    worst = shares[shares.index.get_level_values(-1).isin(looked)].max()
    said = reached(found, "1/6")
    assert said["histogram"] == pytest.approx(worst, abs=1.1e-6)
    assert said["linking"] == pytest.approx(worst, abs=1.1e-6)


@pytest.mark.parametrize("name", list(TABLES))
def test_blocks_of_target_distribution_on_a_real_table(name: str, request: pytest.FixtureRequest) -> None:
    frame, roles = read(name, request, rows=20_000)
    sensitive, column = roles.sensitive[0], roles.quasi[0]
    spec = sf.TargetDistribution(partition_by=(column,))
    found = prepare(frame, roles=roles, method=spec, secret=Secret.from_seed(1))
    law, side = found.planned.law, found.planned.work.side
    names = [v[0] for v in found.profile.domains[0].values]
    groups: dict[int, list[tuple[list[Any], int]]] = {}
    for g, node, count in zip(*(side[c].tolist() for c in ("group_id", "block", "count")), strict=True):
        start, stop = law.blocks[node]
        groups.setdefault(g, []).append(([names[law.order[leaf]] for leaf in range(start, stop)], count))
    looked = set(looked_at(frame, sensitive, 1 / 6))

    def largest(blocks: list[tuple[list[Any], int]], prior: dict[Any, float]) -> float:
        reach: dict[Any, float] = {}
        held = [(block, count, sum(prior.get(v, 0.0) for v in block)) for block, count in blocks]
        rows = sum(count for _, count, mass in held if mass)
        for block, count, mass in held:
            for v in block if mass else ():
                reach[v] = reach.get(v, 0.0) + count / rows * prior.get(v, 0.0) / mass
        return max((p for v, p in reach.items() if v in looked), default=0.0)

    whole = frame[sensitive].value_counts(normalize=True).to_dict()
    said = reached(found, "1/6")
    assert said["histogram"] == pytest.approx(max(largest(b, whole) for b in groups.values()), abs=1.1e-6)
    order = sorted(frame[column].dropna().unique().tolist())

    def of_cell(key: Any, prior: dict[Any, float]) -> float:
        first = key[0] if isinstance(key, tuple) else key
        at = order.index(first) if first in order else len(order)
        return largest(groups[at], prior)

    assert said["linking"] == pytest.approx(worst_in_cells(frame, roles, of_cell), abs=1.1e-6)


@pytest.mark.parametrize("name", list(TABLES))
def test_decoys_of_a_real_table(name: str, request: pytest.FixtureRequest) -> None:
    """A shown value is the record's own with 1/gamma: counted over five releases, false alarm 1e-6 for each value."""
    frame, roles = read(name, request, rows=20_000)
    sensitive = roles.sensitive[0]
    frame = frame[[sensitive]].assign(row=np.arange(len(frame)))
    chosen = sf.Roles(sensitive=sensitive, insensitive=("row",))
    found = prepare(frame, roles=chosen, method=sf.Splu(gamma=5), secret=Secret.from_seed(1))
    assert reached(found, "1/6")["histogram"] == pytest.approx(1 / 5, abs=1.1e-6)
    shown, own = pd.Series(dtype=float), pd.Series(dtype=float)
    for seed in range(5):
        with trial(found, Secret.from_seed(seed)) as release:
            published = pd.read_parquet(release.path / "data.parquet").set_index("row")[sensitive]
        truth = frame.set_index("row")[sensitive].reindex(published.index)
        shown = shown.add(published.value_counts(), fill_value=0)
        own = own.add(published[published == truth].value_counts(), fill_value=0)
    for value in looked_at(frame, sensitive, 1 / 6):
        often, right = int(shown.get(value, 0)), int(own.get(value, 0))
        assert binomtest(right, often, 1 / 5).pvalue > 1e-6 if often else right == 0, value


@pytest.mark.parametrize("name", list(TABLES))
def test_groups_and_cells_of_a_real_table(name: str, request: pytest.FixtureRequest) -> None:
    folder = None if name == "adult" else request.getfixturevalue("data_dir")
    sensitive, quasi = TABLES[name]
    frame = table_of(name, folder)[[sensitive, *quasi]].copy()
    frame[sensitive] = frame[sensitive].astype(object).where(frame[sensitive].notna(), "(missing)").astype(str)
    found = prepare(
        frame,
        roles=sf.Roles(sensitive=sensitive, quasi=tuple(quasi)),
        method=sf.UniformPerturbation(rho1="1/6", rho2="1/3"),
        secret=Secret.from_seed(1),
    ).report()["quasi_identifiers"]
    sizes = frame.groupby(quasi, dropna=False)[sensitive].size()
    assert found["cells"] == len(sizes)
    assert found["unique_rows"] == int((sizes == 1).sum())
    assert found["rows_below_5"] == int(sizes[sizes < 5].sum())
    looked = looked_at(frame, sensitive, 1 / 6)
    joint = frame.groupby([*quasi, sensitive], dropna=False).size()
    share = joint / joint.groupby(level=list(range(len(quasi))), dropna=False).transform("sum")
    sharp = share[(share > 1 / 6) & share.index.get_level_values(-1).isin(looked)]
    cells = sharp.index.droplevel(-1).unique()
    assert found["sharpened"] == pytest.approx(sizes[sizes.index.isin(cells)].sum() / len(frame))
