"""Readers on real tables, against pandas: the exact figures of the readers histogram and linking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sfumato as sf
from sfumato.methods import REGISTRY
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
        plan = found.planned.public
        if method == "uniform":
            keep = float(plan.gamma / (plan.gamma + plan.values - 1))
            other = (1 - keep) / (plan.values - 1)
            check(found, frame, sensitive, quasi, lambda c, k=keep, o=other: [(c, k, o)])
            continue
        whole = frame[sensitive].value_counts()
        subs = found.report()["sub_tables"]
        parts = []
        for i, sub in enumerate(subs):
            held = pd.Series(sub["counts"], index=sub["domain"])
            gamma, m = float(plan.gammas[i]), len(held)
            parts.append((held / whole.reindex(held.index), gamma / (gamma + m - 1), 1 / (gamma + m - 1)))

        def channels(counts: pd.Series, parts: Any = parts) -> list[Any]:
            found = []
            for share, keep, other in parts:
                inside = (counts.reindex(share.index).fillna(0) * share).loc[lambda s: s > 0]
                if len(inside):
                    found.append((inside, keep, other))
            return found

        check(found, frame, sensitive, quasi, channels)


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
