"""One batch, seven or a hundred: the same law; with a seed and equal batches, the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import DataError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build
from tables import COUNTS, MARK, people

ROWS = sum(COUNTS)
ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
BATCHES = [1, 7, 100]


def _publish(out: Path, method: object, batches: int, seed: int | None = None) -> sf.Release:
    engine = LocalEngine(batch_rows=-(-ROWS // batches))
    return sf.publish(people(by_disease=True), out, roles=ROLES, method=method, engine=engine, seed=seed)


@pytest.mark.parametrize("batches", BATCHES)
def test_groups_are_dealt_exactly(batches: int, tmp_path: Path) -> None:
    """Every group has as many rows in data.parquet as values in sensitive.parquet, whatever the batches."""
    _publish(tmp_path / "out", sf.Anatomy(l=3), batches)
    rows = pq.read_table(tmp_path / "out" / "data.parquet")
    side = pq.read_table(tmp_path / "out" / "sensitive.parquet")
    assert np.array_equal(np.bincount(rows["group_id"]), np.bincount(side["group_id"]))
    assert sorted(rows["number"].to_pylist()) == list(range(ROWS))
    # and each record sits in a group that lists its value
    truth = people(by_disease=True)["disease"].to_pylist()
    listed = set(zip(side["group_id"].to_pylist(), side["disease"].to_pylist(), strict=True))
    pairs = {(g, truth[k]) for g, k in zip(rows["group_id"].to_pylist(), rows["number"].to_pylist(), strict=True)}
    assert pairs == listed


@pytest.mark.parametrize("batches", BATCHES)
def test_sub_tables_have_their_planned_sizes(batches: int, tmp_path: Path) -> None:
    method = sf.SmallDomain(rho1="1/5", rho2="1/3", min_size=100)
    release = _publish(tmp_path / "out", method, batches)
    part = release.opened.law.part
    assert part is not None
    sizes = np.bincount(pq.read_table(tmp_path / "out" / "data.parquet")[part])
    assert sizes.tolist() == list(release.plan.law.sizes)


@pytest.mark.parametrize(("name", "batches"), [(name, (1, 20)[i % 2]) for i, name in enumerate(REGISTRY)])
def test_equal_seed_and_batches_give_equal_bytes(name: str, batches: int, tmp_path: Path) -> None:
    method = build(name, REGISTRY[name].example.options)
    for out in ("a", "b"):
        _publish(tmp_path / out, method, batches, seed=5)
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


@pytest.mark.parametrize(
    ("name", "change"), [(name, ("a row less", "another value")[i % 2]) for i, name in enumerate(REGISTRY)]
)
def test_table_that_changes_between_the_passes_is_not_published(name: str, change: str, tmp_path: Path) -> None:
    """The second pass sees other counts than the plan was made for: nothing is written."""
    method = build(name, REGISTRY[name].example.options)
    pq.write_table(people(), tmp_path / "t.parquet")
    engine = LocalEngine()
    opened = engine.open(tmp_path / "t.parquet")

    class Changing(LocalEngine):
        def open(self, source: object) -> object:
            profile = opened.profile

            def once(*args: object, **kwargs: object) -> object:
                found = profile(*args, **kwargs)
                pq.write_table(_spoilt(change), tmp_path / "t.parquet")
                return found

            opened.profile = once
            return opened

    with pytest.raises(DataError, match="changed"):
        sf.publish(tmp_path / "t.parquet", tmp_path / "out", roles=ROLES, method=method, engine=Changing())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.parquet"]


def _spoilt(change: str) -> pa.Table:
    table = people()
    if change == "a row less":
        return table.slice(1)
    diseases = table["disease"].to_pylist()
    diseases[0] = "gout" if diseases[0] != "gout" else "flu"
    return table.set_column(table.column_names.index("disease"), "disease", pa.array(diseases))
