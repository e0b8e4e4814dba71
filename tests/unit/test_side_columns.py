"""Numbers of groups in runs, and groups laid out from their sizes: the same as from the column itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.methods.anatomy.channel import groups_of
from sfumato.model.side_columns import SideColumns, bytes_kept, joined, part_sizes, runs_of
from sfumato.release import bundle
from tables import people

COLUMNS = {
    "in order": [0, 0, 1, 1, 1, 2, 5, 5],
    "one": [3, 3, 3, 3, 3, 3, 3, 3],
    "in no order": [2, 2, 0, 1, 1, 2, 0, 0],
    "none": [],
}


@pytest.mark.parametrize("cuts", [[], [4], [2, 3, 7], [1, 2, 3, 4, 5, 6, 7]])
@pytest.mark.parametrize("name", COLUMNS)
def test_runs_are_the_column_wherever_it_is_cut(name: str, cuts: list[int]) -> None:
    column = np.array(COLUMNS[name], dtype=np.int32)
    runs = joined([runs_of(piece) for piece in np.split(column, cuts)])
    assert runs.column().tolist() == column.tolist()
    assert runs.column().dtype == np.int32
    assert runs.sizes().tolist() == np.bincount(column).tolist()
    assert len(runs.numbers) == len(runs_of(column).numbers)  # none is cut


def test_a_run_over_many_columns_outgrows_a_byte() -> None:
    runs = joined([runs_of(np.repeat([0, 1], [3, 200]))] + [runs_of(np.ones(200, dtype=np.int64))] * 3)
    assert runs.lengths.tolist() == [3, 800]
    assert runs.sizes().tolist() == [3, 800]


def test_a_column_that_is_kept_in_runs_is_one_of_the_columns() -> None:
    code, group = np.arange(4), np.array([0, 0, 2, 2])
    side = SideColumns({"code": code}, {"group": runs_of(group)})
    assert {name: side[name].tolist() for name in side} == {"code": [0, 1, 2, 3], "group": [0, 0, 2, 2]}
    assert len(side) == 2
    assert list(side) == ["group", "code"]
    assert bytes_kept(side) == code.nbytes + 2 * (group.itemsize + 1)  # two runs, whose lengths are bytes
    assert bytes_kept(SideColumns({}, {"group": runs_of(group // 2)})) == 2  # 0 and 1 follow each other
    assert bytes_kept({"code": code, "group": group}) == 2 * code.nbytes
    for given in (side, {"group": group}):
        assert part_sizes(given, "group").tolist() == [2, 0, 2]


@pytest.mark.parametrize("sizes", [[3, 3, 3], [3, 4, 3, 5, 3], [4, 3], [0, 2, 0, 3], [0], []])
def test_groups_hold_their_values_whatever_their_sizes(sizes: list[int]) -> None:
    rng = np.random.default_rng(7)
    held = [np.sort(rng.permutation(6)[:size]).tolist() for size in sizes]
    number = np.repeat(np.arange(len(sizes)), sizes)
    groups = groups_of(number, np.array([u for values in held for u in values], dtype=np.int32), 6)
    found = [groups.held[[g]].indices.tolist() for g in range(len(groups))]
    last = max((g for g, size in enumerate(sizes) if size), default=-1)  # empty groups at the end are not told
    assert found == held[: last + 1]
    assert groups.sizes.tolist() == sizes[: last + 1]


def test_a_release_knows_its_groups_from_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "GROUP_ROWS", 7)  # many groups of three are cut somewhere
    roles = sfumato.Roles(sensitive="disease", quasi=["age", "sex"])
    rows = people().select(["age", "sex", "disease"])
    sfumato.publish(rows, roles=roles, method=sfumato.Anatomy(l=3), seed=1).save(tmp_path / "r")
    assert pq.read_metadata(tmp_path / "r" / "sensitive.parquet").num_row_groups > 20
    side = sfumato.open_release(tmp_path / "r").opened.evidence.side
    stated = pq.read_table(tmp_path / "r" / "sensitive.parquet")["group_id"].to_numpy()
    np.testing.assert_array_equal(side["group_id"], stated)
    np.testing.assert_array_equal(part_sizes(side, "group_id"), np.bincount(stated))
