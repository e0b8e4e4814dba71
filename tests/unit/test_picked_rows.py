"""Sums and averages of an untouched column under a sensitive condition: the extremes of every possible world."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.laws.block_bounds import OUTER, ROW_BY_ROW, SOMETIMES_NULL

VALUES = np.array([10, 20, 30, 40])
NUMBERS = (-3.0, -0.1, 0.0, 0.1, 0.25, 2.0, 7.0, None)
MOST_WORLDS = 20_000


def table(rng: np.random.Generator) -> pa.Table:
    """A few rows in two groups, with numbers of both signs and missing ones."""
    rows = int(rng.integers(6, 10))
    group = rng.integers(0, 2, rows)
    group[:6] = [0, 0, 0, 1, 1, 1]
    secret = rng.choice(VALUES, rows, p=rng.dirichlet(np.ones(4)))
    secret[:4] = VALUES  # all of them are in the domain
    hours = [NUMBERS[i] for i in rng.integers(0, len(NUMBERS), rows)]
    return pa.table({"g": group, "sex": rng.integers(0, 2, rows), "h": pa.array(hours, pa.float64()), "v": secret})


def worlds(folder: Path) -> tuple[np.ndarray, dict[str, np.ndarray]] | None:
    """(every table of sensitive values that the release leaves possible, the columns in the same order of rows)."""
    rows, side = (pq.read_table(folder / f"{name}.parquet").to_pandas() for name in ("data", "sensitive"))
    found, order = np.zeros((1, 0), dtype=int), []
    for group, part in rows.groupby("group_id"):
        blocks: list[tuple[int, ...]] = []
        for _, block in side[side["group_id"] == group].iterrows():
            inside = VALUES[(block["low"] <= VALUES) & (block["high"] >= VALUES)]
            blocks += [tuple(inside.tolist())] * int(block["count"])
        order += list(part.index)
        here: set[tuple[int, ...]] = set()
        for dealt in set(itertools.permutations(blocks, len(part))):
            here.update(itertools.product(*dealt))
        if len(found) * len(here) > MOST_WORLDS:
            return None
        mine = np.array(sorted(here))
        found = np.hstack([np.repeat(found, len(mine), 0), np.tile(mine, (len(found), 1))])
    return found, {name: rows.loc[order][name].to_numpy() for name in ("g", "sex", "h")}


CONDITIONS = {
    "v > 20": lambda v, _: v > 20,
    "v = 10 AND sex = 0": lambda v, c: (v == 10) & (c["sex"] == 0),
    "v IN (10, 40) AND h < 1": lambda v, c: ((v == 10) | (v == 40)) & (c["h"] < 1),
    "NOT v = 40": lambda v, _: v != 40,
    "v > 20 OR sex = 1": lambda v, c: (v > 20) | (c["sex"] == 1),
}
LOOSE = {"v = 10 AND sex = 0 OR v > 20 AND sex = 1": lambda v, c: np.where(c["sex"] == 0, v == 10, v > 20)}


def near(found: float | None, true: float) -> bool:
    return found is not None and math.isclose(found, true, rel_tol=1e-12, abs_tol=1e-12)


def check(row: dict[str, Any], picks: np.ndarray, hours: np.ndarray, *, exact: bool) -> bool:
    """Whether an average may be NULL; fails where a bound excludes a world, or is not one of them."""
    there = ~np.isnan(hours)
    sums, counts = (picks * np.nan_to_num(hours)).sum(1), (picks & there).sum(1)
    some = counts > 0
    pairs = [("s", sums)]
    if some.any():
        pairs.append(("m", sums[some] / counts[some]))
    else:
        assert row["m_low"] is None
    for name, true in pairs:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        assert low <= true.min() + 1e-12, (name, row)
        assert high >= true.max() - 1e-12, (name, row)
        assert not exact or (near(low, true.min()) and near(high, true.max())), (name, row, true.min(), true.max())
    return bool(some.any() and not some.all())


@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_the_extremes_of_all_worlds(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    looked = 0
    while not looked:
        method = sf.TargetDistribution(
            target=str(rng.choice(["uniform", "source", "zipf(1)"])),
            partition_by=["g"] if rng.random() < 0.7 else [],
            fakes=str(rng.choice(["0", "0.3", "1"])),
            min_group=3,
        )
        roles = sf.Roles(sensitive="v", quasi=["g", "sex"], insensitive=["h"])
        try:
            release = sf.publish(table(rng), tmp_path / "out", roles=roles, method=method, force=True, seed=seed)
        except SfumatoError:
            continue
        known = worlds(tmp_path / "out")
        if known is None:
            continue
        looked += 1
        secret, columns = known
        for condition, holds in (CONDITIONS | LOOSE).items():
            asked = f"SUM(h) AS s, AVG(h) AS m FROM release WHERE {condition}"
            picks = np.broadcast_to(holds(secret, columns), secret.shape)
            answer = release.sql(f"SELECT {asked}")
            (row,) = answer.rows()
            empty = check(row, picks, columns["h"], exact=condition not in LOOSE)
            assert (SOMETIMES_NULL in answer.caveats) >= empty
            assert condition in LOOSE or (SOMETIMES_NULL in answer.caveats) == empty
            assert (OUTER in answer.caveats) <= (condition in LOOSE)
            for row in release.sql(f"SELECT sex, {asked} GROUP BY CUBE (sex)").rows():
                mine = picks if row["sex"] is None else picks & (columns["sex"] == row["sex"])
                check(row, mine, columns["h"], exact=condition not in LOOSE or row["sex"] is not None)
        for row in release.sql("SELECT v, sex, SUM(h) AS s, AVG(h) AS m FROM release GROUP BY v, sex").rows():
            check(row, (secret == row["v"]) & (columns["sex"] == row["sex"]), columns["h"], exact=True)
        by_case = "CASE WHEN v > 20 THEN h ELSE -2 * h END"
        (row,) = release.sql(f"SELECT SUM({by_case}) AS s FROM release").rows()
        true = np.nansum(np.where(secret > 20, columns["h"], -2 * columns["h"]), axis=1)
        assert near(row["s_low"], true.min())
        assert near(row["s_high"], true.max())
        answer = release.sql("SELECT SUM(h * v) AS s, AVG(h * v) AS m FROM release WHERE v > 20")
        true = np.nansum(np.where(secret > 20, secret * columns["h"], 0), axis=1)
        (row,) = answer.rows()
        assert row["s_low"] <= true.min() + 1e-9
        assert row["s_high"] >= true.max() - 1e-9
        assert row["s_low"] == row["s_high"] or ROW_BY_ROW in answer.caveats
