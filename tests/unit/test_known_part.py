"""Rows that count whatever their sensitive value is have no error, also inside a question that has one."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from tables import MARK, people


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    out: Path = tmp_path_factory.mktemp("known") / "out"
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
    return sf.publish(people(), out, roles=roles, method=sf.UniformPerturbation(rho1="1/5", rho2="1/2"), seed=3)


def _row(release: sf.Release, condition: str) -> dict[str, float]:
    return release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {condition}").rows()[0]


@pytest.mark.parametrize("age", [25, 40, 80])
@pytest.mark.parametrize("disease", ["= 'flu'", "IN ('cold', 'gout')", "<> 'angina'"])
def test_alternative_shifts_the_interval(age: int, disease: str, release: sf.Release) -> None:
    """count(A or B) = count(A) + count(not A and B); the first term is exact, so the intervals differ by it."""
    both = _row(release, f"age > {age} OR disease {disease}")
    known = _row(release, f"age > {age}")
    rest = _row(release, f"NOT age > {age} AND disease {disease}")
    assert known["n_se"] == 0
    for end in ("n", "n_low", "n_high"):
        assert both[end] == pytest.approx(known["n"] + rest[end], abs=1e-6)
    assert both["n_se"] == pytest.approx(rest["n_se"], abs=1e-6)
