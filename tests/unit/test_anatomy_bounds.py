"""Certain bounds of anatomy: those of all values together are those of one value, and both are the sums by group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.methods import REGISTRY

VALUES = 8


@pytest.fixture(scope="module")
def release() -> sf.Release:
    rng = np.random.default_rng(3)
    table = pa.table({"area": rng.integers(0, 3, 600), "disease": rng.integers(0, VALUES, 600)})
    roles = sf.Roles(sensitive="disease", quasi=("area",))
    return sf.publish(table, roles=roles, method=REGISTRY["anatomy"].spec(l=3), seed=1)


def test_bounds_of_all_values_together_are_those_of_each_alone(release: sf.Release) -> None:
    together = release.sql("SELECT area, disease, COUNT(*) AS n FROM release GROUP BY area, disease").table.to_pylist()
    assert len(together) == 3 * VALUES  # more values than a group has: they are summed in one pass
    for row in together:
        asked = f"SELECT COUNT(*) AS n FROM release WHERE area = {row['area']} AND disease = {row['disease']}"
        alone = release.sql(asked).table.to_pylist()[0]
        assert (row["n_min"], row["n_max"]) == (alone["n_min"], alone["n_max"])
        assert row["n"] == pytest.approx(alone["n"])


@pytest.mark.parametrize("values", [{2}, {0, 1, 5}])
def test_bounds_are_the_sums_over_groups(release: sf.Release, values: set[int]) -> None:
    """Rows of the area in a group, and values of the group that are asked for: how many meet, at least and at most."""
    rows = pq.read_table(release.path / "data.parquet").to_pylist()
    held = pq.read_table(release.path / "sensitive.parquet").to_pylist()
    groups: dict[int, list[int]] = {}
    for row in held:
        groups.setdefault(row["group_id"], []).append(row["disease"])
    low = high = 0
    for number, members in groups.items():
        here = sum(row["group_id"] == number and row["area"] == 1 for row in rows)
        asked = sum(value in values for value in members)
        low, high = low + max(0, here + asked - len(members)), high + min(here, asked)
    listed = ", ".join(map(str, sorted(values)))
    answer = release.sql(
        f"SELECT COUNT(*) AS n FROM release WHERE area = 1 AND disease IN ({listed})"
    ).table.to_pylist()
    assert (answer[0]["n_min"], answer[0]["n_max"]) == (low, high)
    assert low < high
