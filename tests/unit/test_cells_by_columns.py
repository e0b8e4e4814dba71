"""An open release counts the cells of the columns that are asked about; answers are those over its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato
from comparing import people
from sfumato.engines.duckdb import reader

ASKED = (
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'd01' AND area > 'area 2'",
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'd03' AND area > 'area 1'",
    "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'd02' GROUP BY sex ORDER BY sex",
    "SELECT AVG(grade) AS n FROM release WHERE disease = 'd02' AND area = 'area 3'",
    "SELECT area, sex, COUNT(*) AS n FROM release WHERE disease <> 'd00' GROUP BY CUBE (area, sex) ORDER BY n",
    "SELECT COUNT(*) AS n FROM release",
    "SELECT disease, COUNT(*) AS n FROM release WHERE grade > 4 GROUP BY disease ORDER BY disease",
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = people(12_000)
    out = tmp_path_factory.mktemp("cells") / "out"
    roles = sfumato.Roles(sensitive="disease", quasi=("area", "sex", "grade"), rest="drop")
    sfumato.publish(table, out, roles=roles, method=sfumato.UniformPerturbation(rho1="1/3", rho2="1/2"), seed=2)
    return out


def answers(path: Path) -> list[dict[str, list[object]]]:
    opened = sfumato.open_release(path)
    return [opened.sql(text).table.to_pydict() for text in ASKED]


@pytest.mark.parametrize(
    ("setting", "value"), [("CELLS_AFTER", 1), ("OWN_SHARE", 0.0), ("MORE_SHARE", 1.0), ("MISSES", 1)]
)
def test_the_same_answers_over_cells_and_rows(
    release: Path, setting: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CELLS_AFTER", 10**9)
    plain = answers(release)
    monkeypatch.setattr(reader, "CELLS_AFTER", 2)
    monkeypatch.setattr(reader, setting, value)
    for mine, theirs in zip(answers(release), plain, strict=True):
        assert mine.keys() == theirs.keys()
        for name, cells in mine.items():
            assert cells == [pytest.approx(x, rel=1e-9) if isinstance(x, float) else x for x in theirs[name]]


def test_cells_of_asked_columns_are_kept_and_serve_narrower_questions(release: Path) -> None:
    opened = sfumato.open_release(release)
    for text in ASKED[:3]:
        opened.sql(text)
    kept = opened.opened.reader._cells
    assert set(kept) == {frozenset({"disease", "area"}), frozenset({"disease", "area", "sex"})}
    assert all(kept.values())
    opened.sql(ASKED[0])
    assert len(kept) == 2
