"""Sizes of anatomy's groups are kept in a byte: answers are those of wide numbers, also where squares would not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato
from sfumato.model.side_columns import Runs

ASKED = (
    "SELECT COUNT(*) AS n FROM release WHERE s = 'v03' AND age > 40 AND sex = 1",
    "SELECT s, COUNT(*) AS n FROM release WHERE sex = 1 GROUP BY s ORDER BY s",
    "SELECT sex, COUNT(*) AS n FROM release WHERE s IN ('v01', 'v02') AND age < 30 GROUP BY CUBE (sex) ORDER BY sex",
    "SELECT AVG(age) AS n FROM release WHERE s = 'v05'",
)


def test_answers_are_those_of_wide_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of 40 rows; every question twice, from rows and from what is kept."""
    rng, rows = np.random.default_rng(1), 12_000
    table = pa.table(
        {
            "s": [f"v{value:02d}" for value in rng.integers(0, 60, rows)],
            "sex": rng.integers(0, 2, rows),
            "age": rng.integers(20, 60, rows),
        }
    )
    roles = sfumato.Roles(sensitive="s", quasi=("sex", "age"))
    out = sfumato.publish(table, tmp_path / "out", roles=roles, method=sfumato.Anatomy(l=40), seed=1).path

    def answers() -> list[Any]:
        opened = sfumato.open_release(out)
        found: list[Any] = [opened.sql(text).table.to_pydict() for text in ASKED for _ in range(2)]
        return [*found, opened.fit("age ~ C(sex)").rows(), str(opened.compare(by="sex", share="s = 'v01'"))]

    narrow, own = answers(), Runs.sizes
    kept = sfumato.open_release(out).opened.evidence.side.runs["group_id"].sizes()
    assert kept.dtype == np.uint8
    assert int(kept.max()) >= 40
    monkeypatch.setattr(Runs, "sizes", lambda runs: own(runs).astype(np.int64))
    assert answers() == narrow
