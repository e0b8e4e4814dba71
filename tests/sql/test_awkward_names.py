"""Columns whose names are those that answers and aggregates use inside, or that need quoting everywhere."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError

NAMES = (
    "k0",
    "l0",
    "m0",
    "m1",
    "p1",
    "a0",
    "e0",
    "v",
    "part",
    "u0_0",
    "count",
    "order",
    "release",
    'a "quoted" name',
    "Größe",
)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = np.random.default_rng(1)
    columns = {name: rng.integers(0, 3, 400) for name in NAMES}
    return pa.table(columns | {"select": rng.permutation(np.repeat(["x", "y", "z", "w"], 100))})


@pytest.fixture(scope="module")
def release(rows: pa.Table) -> sf.Release:
    method = sf.UniformPerturbation(rho1="1/2", rho2=1 - Fraction(1, 10**40))
    return sf.publish(rows, roles=sf.Roles(sensitive="select", rest="quasi"), method=method, seed=1)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_asked(name: str, rows: pa.Table, release: sf.Release) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    answer = release.sql(
        f"SELECT {quoted} AS k, COUNT(*) AS n, SUM({quoted}) AS s FROM release "
        f"WHERE \"select\" = 'x' AND ({quoted} > 0 OR \"select\" = 'y') GROUP BY {quoted} ORDER BY k"
    )
    values = rows[name].to_numpy()[rows["select"].to_numpy(zero_copy_only=False) == "x"]
    true = {int(k): int((values == k).sum()) for k in np.unique(values) if k > 0}
    found = {row["k"]: (round(row["n"]), round(row["s"])) for row in answer.rows() if round(row["n"])}
    assert found == {k: (n, k * n) for k, n in true.items()}


@pytest.mark.parametrize("name", ["__order__", "__n__", "__code__"])
def test_names_that_are_ours_are_refused(name: str) -> None:
    table = pa.table({name: [1, 2, 3, 4], "s": ["a", "b", "a", "b"]})
    with pytest.raises(DataError, match=name):
        sf.publish(
            table, roles=sf.Roles(sensitive="s", rest="quasi"), method=sf.UniformPerturbation(rho1="1/2", rho2="3/4")
        )
