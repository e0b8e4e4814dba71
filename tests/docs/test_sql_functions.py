"""docs/reference/sql-functions.md has all that the parser allows, and a release answers every line of it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tools.build_sql_functions import AGGREGATED, ERRORS, PAGE, SCALARS, UNTOUCHED, missing, page

import sfumato as sf

N = 240


@pytest.fixture(scope="module")
def release() -> sf.Release:
    day = datetime.date(2025, 1, 1)
    table = pa.table(
        {
            "x": [1 + k % 5 for k in range(N)],
            "y": [2 + k % 7 for k in range(N)],
            "t": [("abc", "bcd", "a%x")[k % 3] for k in range(N)],
            "d": [day + datetime.timedelta(days=k) for k in range(N)],
            "disease": [("flu", "gout", "cold", "acne")[k % 4] for k in range(N)],
        }
    )
    roles = sf.Roles(sensitive="disease", quasi=["x", "y", "t"], insensitive=["d"])
    return sf.publish(table, roles=roles, method=sf.UniformPerturbation(rho1="1/3", rho2="3/5"), seed=1)


def test_the_page_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, page())


def test_nothing_that_is_allowed_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing() == set()
    monkeypatch.setitem(SCALARS, "Texts", SCALARS["Texts"][1:])
    assert missing() == {"Substring"}  # the checker itself


def test_every_line_is_answered(release: sf.Release) -> None:
    """Aggregates of untouched columns and scalars give what DuckDB gives; here it is enough that none is refused."""
    for entry in (*AGGREGATED, *UNTOUCHED):
        assert release.sql(f"SELECT {entry.text} AS n FROM release").to_arrow().num_rows == 1, entry
    for entry in ERRORS:
        found = release.sql(f"SELECT COUNT(*) AS n, {entry.text} AS e FROM release WHERE disease = 'flu'").to_arrow()
        assert found.num_rows == 1, entry
    for entries in SCALARS.values():
        for entry in entries:
            found = release.sql(
                f"SELECT {entry.text} AS k, COUNT(*) AS n FROM release GROUP BY {entry.text}"
            ).to_arrow()
            assert sum(found["n"].to_pylist()) == N, entry
