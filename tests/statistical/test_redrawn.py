"""Releases drawn in memory for simulations are those that `publish` makes: the same rows, the same answers."""

from __future__ import annotations

import pytest
from benchmarks import coverage
from benchmarks.redrawn import Redrawn

SQL = "SELECT sex, s, COUNT(*) AS n, SUM(wage) AS w FROM release GROUP BY sex, s ORDER BY sex, s"


@pytest.mark.slow
@pytest.mark.parametrize("method", coverage.METHODS)
def test_the_rows_are_those_of_publish(method: str) -> None:
    drawn = Redrawn(coverage.people().slice(0, 2_500), roles=coverage.ROLES, method=coverage.METHODS[method])
    drawn.release(1)  # the second one takes the kept profile
    mine, published = drawn.release(2), drawn.published(2)
    columns = tuple(published.opened.reader.columns)
    assert tuple(mine.opened.reader.columns) == columns
    for release in (mine, published):
        assert release.manifest.rows == release.opened.counts.distinct_cells(("sex", "wage"))[1].sum()
    found, expected = (
        release.opened.reader._con.sql("SELECT *, count(*) FROM release GROUP BY ALL ORDER BY ALL").fetchall()
        for release in (mine, published)
    )
    assert found == expected
    for one, other in zip(mine.sql(SQL).rows(), published.sql(SQL).rows(), strict=True):
        assert list(one.values())[1:] == pytest.approx(list(other.values())[1:], rel=1e-9, abs=1e-6, nan_ok=True)
