"""Grouping sets of untouched columns are estimated at once: as each of them would be alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato
from comparing import people, roles
from sfumato.answering import estimate
from sfumato.methods.registry import BUILT_IN
from sfumato.methods.specifications import build

ASKED = (
    "SELECT area, sex, COUNT(*) AS n FROM release WHERE disease = 'd01' GROUP BY CUBE (area, sex)",
    """SELECT sex, AVG(grade) AS a, COUNT(*) FILTER (WHERE disease IN ('d02', 'd05')) AS n, COUNT(*) AS m
    FROM release GROUP BY ROLLUP (sex)""",
    """SELECT area, sex, AVG(CASE WHEN disease = 'd03' THEN 1 ELSE 0 END) AS n FROM release
    WHERE area > 'area 2' OR disease < 'd06' GROUP BY GROUPING SETS ((area), (sex), ())""",
)


@pytest.mark.parametrize("method", [name for name in BUILT_IN if name != "target-distribution"])  # no estimates
def test_the_same_answers_together_and_apart(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = build(method, sfumato.methods.REGISTRY[method].example.options)
    release = sfumato.publish(people(), tmp_path / "out", roles=roles(), method=spec, seed=3)
    calls: list[int] = []
    one = estimate._estimated
    monkeypatch.setattr(estimate, "_estimated", lambda *a: calls.append(1) or one(*a))

    def answers() -> list[dict[str, list[object]]]:
        return [release.sql(text).table.to_pydict() for text in ASKED]

    together, once = answers(), len(calls)
    monkeypatch.setattr(estimate, "MOST_TOGETHER", 0)
    for mine, alone in zip(together, answers(), strict=True):
        assert mine.keys() == alone.keys()
        for name, cells in mine.items():
            expected = [pytest.approx(x, rel=1e-9, nan_ok=True) if isinstance(x, float) else x for x in alone[name]]
            assert cells == expected, name
    apart = release.opened.law.additive or "sex" in release.schema.units
    assert once == (9 if apart else 3), "4, 2 and 3 grouping sets"
    assert len(calls) - once == 9
