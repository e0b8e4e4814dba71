"""Rows that a method leaves out are gone: none of their values is in any file or answer, and answers say how many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.release.verify import verify

MARKS = ("zqxjtown", "zqxjjob", "zqxjregion")
RARE = 3


def _table() -> pa.Table:
    """People of two towns, and three of a town, job and age that nobody else has; all of one disease."""
    rng = np.random.default_rng(1)
    n = 600
    town = [f"town{i}" for i in rng.integers(0, 2, n)] + ["zqxjtown"] * RARE
    job = [f"job{i}" for i in rng.integers(0, 2, n)] + ["zqxjjob"] * RARE
    age = [*(30 + rng.integers(0, 10, n)), *[97] * RARE]
    disease = [f"d{i}" for i in rng.integers(0, 4, n)] + ["d0"] * RARE
    return pa.table({"town": town, "job": job, "age": age, "disease": disease})


HIERARCHIES: dict[str, Any] = {
    "none": {},
    "labels": {
        "town": [["town0", "region0", "*"], ["town1", "region0", "*"], ["zqxjtown", "zqxjregion", "*"]],
        "age": "interval:10/20",
    },
    "prefixes": {"town": "prefix:6/5", "job": "prefix:5/4"},
}


@pytest.mark.parametrize("kind", ["frequency", "distinct"])
@pytest.mark.parametrize("case", HIERARCHIES)
def test_no_value_of_a_suppressed_row_is_published(case: str, kind: str, tmp_path: Path) -> None:
    roles = sf.Roles(sensitive="disease", quasi=["town", "job", "age"])
    method = sf.LDiversity(l=2, kind=kind, suppression="1/50", hierarchies=HIERARCHIES[case])
    release = sf.publish(_table(), tmp_path / "out", roles=roles, method=method)
    left_out = _table().num_rows - release.manifest.rows
    assert left_out >= RARE  # else nothing is tested
    for file in (tmp_path / "out").iterdir():
        assert not [mark for mark in MARKS if mark.encode() in file.read_bytes()]
    stated = json.loads((tmp_path / "out" / "release.json").read_text())
    kept = pq.read_table(tmp_path / "out" / "data.parquet")
    for column in stated["columns"]:
        if column["name"] == "age":
            assert max(column["domain"]) < 40
        elif "domain" in column:
            assert set(column["domain"]) == {f"{column['name']}{i}" for i in range(2)}
    for level in stated["law"]["columns"]:
        assert set(level["labels"]) <= {str(v) for v in kept[level["column"]].to_pylist()}
    opened = sf.open_release(tmp_path / "out")
    assert list(verify(opened.opened))
    answer = opened.sql("SELECT town, COUNT(*) AS n FROM release GROUP BY town")
    assert sorted(row["town"] for row in answer.rows()) == ["town0", "town1"]
    assert sum(row["n"] for row in answer.rows()) == pytest.approx(release.manifest.rows)


def test_a_declared_domain_stays_as_declared(tmp_path: Path) -> None:
    roles = sf.Roles(sensitive="disease", quasi=["town", "age"], rest="drop")
    towns = ["town0", "town1", "town2", "zqxjtown"]
    method = sf.LDiversity(l=2, suppression="1/50")
    release = sf.publish(_table(), tmp_path / "out", roles=roles, method=method, domains={"town": towns})
    assert release.manifest.rows < _table().num_rows
    domain = next(c for c in release.manifest.columns if c.name == "town").domain
    assert domain == towns
    assert list(verify(sf.open_release(tmp_path / "out").opened))


@pytest.mark.parametrize("method", ["l-diversity", "anatomy"])
def test_answers_say_how_many_rows_were_left_out(method: str) -> None:
    """Every answer, exact ones too: a count of the release is not a count of the source."""
    spec: Any = sf.LDiversity(l=2, suppression="1/50")
    table = _table()
    if method == "anatomy":
        spec, extra = sf.Anatomy(l=3, suppress=True), ["d0"] * 300
        more = pa.table({"town": ["town0"] * 300, "job": ["job0"] * 300, "age": [31] * 300, "disease": extra})
        table = pa.concat_tables([table, more])
    roles = sf.Roles(sensitive="disease", quasi=["town", "age"], insensitive=["job"])
    release = sf.publish(table, roles=roles, method=spec)
    left_out = table.num_rows - release.manifest.rows
    assert left_out > 0
    for sql in (
        "SELECT COUNT(*) AS n FROM release",
        "SELECT job, COUNT(*) AS n FROM release GROUP BY job",
        "SELECT COUNT(*) AS n FROM release WHERE disease = 'd1'",
        "SELECT AVG(age) AS n FROM release WHERE disease = 'd1'",
    ):
        caveats = release.sql(sql).caveats
        assert [text for text in caveats if "left out" in text and f"{left_out:,} rows" in text], caveats


@pytest.mark.parametrize("spec", [sf.LDiversity(l=2, suppression="1/2"), sf.Anatomy(l=2, suppress=True)])
def test_nothing_is_said_where_nothing_was_left_out(spec: Any) -> None:
    table = pa.table({"q": ["a", "b"] * 50, "s": ["x", "x", "y", "y"] * 25})
    release = sf.publish(table, roles=sf.Roles(sensitive="s", quasi=["q"]), method=spec)
    assert release.manifest.rows == table.num_rows
    caveats = release.sql("SELECT COUNT(*) AS n FROM release WHERE q = 'a'").caveats
    assert not [text for text in caveats if "left out" in text]
