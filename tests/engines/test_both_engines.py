"""One body for all engines: equal plans, equal counts in every sub-table and group, releases that read alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

import sfumato as sf
from forging import verified
from same_numbers import assert_same_numbers
from sfumato.engines.contract import Engine
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import DataError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from tables import COUNTS, MARK, people

SEED = 3
ROWS = sum(COUNTS)
ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
ASKED = ("uniform", "anatomy", "l-diversity")  # of which all questions are asked
QUESTIONS = (
    "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM release WHERE disease <> 'flu' GROUP BY sex ORDER BY n",
    "SELECT COUNT(*) AS n FROM release WHERE age // 10 = 4 AND sex IN ('f', 'm') AND disease LIKE '%o%'",
    "SELECT age // 20 AS a, COUNT(*) AS n FROM release GROUP BY a HAVING n > 3 ORDER BY a DESC LIMIT 3",
)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table sorted by disease, in row groups of which Spark makes partitions."""
    file = tmp_path_factory.mktemp("source") / "people.parquet"
    pq.write_table(people(by_disease=True), file, row_group_size=150)
    return file


def rows_of(release: sf.Release) -> pa.Table:
    return pa.concat_tables(pq.read_table(release.path / name) for name in release.manifest.data_files)


def facts(release: sf.Release, truth: list[str]) -> dict[str, Any]:
    """What must not depend on the engine."""
    rows, part = rows_of(release), release.opened.law.part
    found: dict[str, Any] = {
        "plan": TypeAdapter(release.opened.method.plan_type).dump_python(release.plan, mode="json"),
        "rows": rows.num_rows,
        "columns": [c.model_dump() for c in release.manifest.columns],
        "guarantee": release.guarantee.model_dump(),
    }
    if part:
        sizes = np.bincount(rows[part].to_numpy())
        found["sizes"] = sizes.tolist()
        values = np.array([truth[k] for k in rows["number"].to_numpy()])
        pairs = zip(rows[part].to_pylist(), values.tolist(), strict=True)
        if "sensitive.parquet" in release.manifest.files and release.manifest.method == "anatomy":
            side = pq.read_table(release.path / "sensitive.parquet")
            listed = zip(side[part].to_pylist(), side["disease"].to_pylist(), strict=True)
            assert sorted(pairs) == sorted(listed), "a record sits in a group that lists its value"
        else:
            found["values by part"] = _counted(pairs)
    return found


def _counted(pairs: Any) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for pair in pairs:
        found[pair] = found.get(pair, 0) + 1
    return found


@pytest.mark.parametrize("name", REGISTRY)
def test_releases_of_both_engines(name: str, engine: Engine, source: Path, tmp_path: Path) -> None:
    method = build(name, REGISTRY[name].example.options)
    release = sf.publish(source, tmp_path / "out", roles=ROLES, method=method, engine=engine, seed=SEED)
    reference = sf.publish(source, roles=ROLES, method=method, engine=LocalEngine(), seed=SEED)
    truth = people(by_disease=True)["disease"].to_pylist()
    assert facts(release, truth) == facts(reference, truth)
    if engine.name == "spark":
        assert len(release.manifest.data_files) > 1
        numbers = rows_of(release)["number"].to_pylist()
        if release.manifest.rows == ROWS:
            assert sorted(numbers) == list(range(ROWS))
        assert verified(tmp_path / "out")
        other = sf.open_release(tmp_path / "out", engine=engine)
        for question in QUESTIONS if name in ASKED else QUESTIONS[:1]:
            assert_same_numbers(other.sql(question).rows(), release.sql(question).rows())


def test_profiles_are_equal(engine: Engine, source: Path) -> None:
    """Domains and joint counts of three columns, whatever order an engine finds them in."""
    method = build("randomized-response", REGISTRY["randomized-response"].example.options)
    needs = REGISTRY["randomized-response"].needs(method, ROLES)
    found = engine.open(source).profile(needs, {}, null_as_value=False)
    reference = LocalEngine().open(source).profile(needs, {}, null_as_value=False)
    assert found.domains == reference.domains
    for a, b in zip(found.histograms, reference.histograms, strict=True):
        assert dict(zip(map(tuple, a.codes.tolist()), a.true_counts.tolist(), strict=True)) == dict(
            zip(map(tuple, b.codes.tolist()), b.true_counts.tolist(), strict=True)
        )


def test_columns_as_people_look_at_them(engine: Engine, source: Path) -> None:
    table, reference = engine.open(source), LocalEngine().open(source)
    assert table.columns == reference.columns
    assert table.filled([f"{MARK}_name"]) == reference.filled([f"{MARK}_name"])
    assert table.describe(["disease"], examples=2) == reference.describe(["disease"], examples=2)
    assert table.people(f"{MARK}_name") == reference.people(f"{MARK}_name")
    assert table.people("sex") == reference.people("sex")
    binned, expected = (t.binned({"age": (18, 40, 60)}) for t in (table, reference))
    assert binned.describe(["age"], examples=9) == expected.describe(["age"], examples=9)


def test_no_more_rows_of_a_person_than_allowed(engine: Engine, source: Path) -> None:
    """`sex` stands for people: three rows of each stay, and all columns of a row stay together."""
    roles = sf.Roles(sensitive="disease", quasi=["age"], insensitive=["number"], rest="drop", person="sex")
    prepared = prepare(
        source,
        roles=sf.Roles(**{**_fields(roles), "max_rows_per_person": 3}),
        method=sf.RandomizedResponse(scope="s", keep={"disease": 0.5}),
        secret=Secret.from_seed(1),
        engine=engine,
    )
    assert prepared.profile.rows == 6
    assert prepared.people.rows_left_out == ROWS - 6


def _fields(roles: sf.Roles) -> dict[str, Any]:
    return {name: getattr(roles, name) for name in roles.__dataclass_fields__}


CELLS = (
    "s,n,x,zip,d,t,note\n"
    'a,1,1.5,01,2020-01-31,2020-01-31 10:00:00,"one, two"\n'
    "b,,2,10,2021-12-01,2020-01-31T11:00:00,\n"
)


def test_csv_columns_have_the_types_people_expect(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CELLS)
    table, reference = engine.open(tmp_path / "t.csv"), LocalEngine().open(tmp_path / "t.csv")
    assert table.columns == reference.columns
    found, expected = (t.describe(list(t.columns), examples=2) for t in (table, reference))
    assert {n: (d.filled, d.examples) for n, d in found.items()} == {
        n: (d.filled, d.examples) for n, d in expected.items()
    }


@pytest.mark.parametrize("text", ["a,b\n1,2\n3\n", "a,b\n1,2\n3,4,5\n"])
def test_ragged_csv_is_refused(text: str, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match="ragged"):
        engine.open(tmp_path / "t.csv").filled(["a"])
