"""A question that counts rows and tells them apart by nothing but their group: a number of rows for each group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato
from comparing import people
from same_numbers import assert_same_numbers
from sfumato.answering import observing
from sfumato.methods.anatomy import anatomised, group_counts, held_values
from sfumato.model import array_counts
from sfumato.model.part_cells import PartCounts, part_counts
from sfumato.model.public import Asked, Observed
from sfumato.model.sparse_table import SparseTable

VALUES = 7


def channel_of(seed: int, least: int, most: int, groups: int = 90) -> anatomised.Channel:
    rng = np.random.default_rng(seed)
    held = [rng.permutation(VALUES)[: rng.integers(least, most + 1)] for _ in range(groups)]
    number = np.repeat(np.arange(groups), [len(h) for h in held])
    return anatomised.Channel(anatomised.groups_of(number, np.concatenate(held).astype(np.int32), VALUES))


def counted(channel: anatomised.Channel, share: float, seed: int) -> tuple[Observed, Observed]:
    """Some of the rows of every group: as an entry for each group, and as one for all of them."""
    rows = np.random.default_rng(seed).binomial(channel.groups.sizes, share).astype(np.uint8)
    there = np.flatnonzero(rows)
    entries = Observed(
        stratum=np.zeros(len(there), dtype=np.intp),
        part=there.astype(np.int64),
        value=np.zeros(len(there), dtype=np.intp),
        moments=rows[there, None].astype(float),
        key=np.zeros(1, dtype=np.intp),
        pattern=np.zeros(1, dtype=np.intp),
        keys=1,
    )
    none = np.zeros(1, dtype=np.int64)
    one = replace(entries, stratum=none, part=none, value=none, moments=np.array([[float(rows.sum())]]))
    return entries, replace(one, inside=PartCounts(rows=rows[: there.max(initial=-1) + 1]), cell=none)


def asked(h: np.ndarray) -> Asked:
    return Asked(
        units=(0,), classes=(np.arange(VALUES, dtype=np.int32),), coefficients=(SparseTable.dense(h),),
        measure=np.zeros(len(h), dtype=np.intp), products=np.zeros((1, 1), dtype=np.intp),
        pairs=np.array([[0, len(h) - 1]], dtype=np.intp), binary=True, z=1.96,
    )  # fmt: skip


@pytest.mark.parametrize("sizes", [(3, 3), (3, 4), (2, 6)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("most_cells", [0, 1 << 17])
def test_rows_by_group_give_the_same_as_an_entry_for_each_group(
    sizes: tuple[int, int], share: float, most_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One value, several, every one by itself and all; groups of one size, of two and of many; block by block, one
    place or two at once."""
    monkeypatch.setattr(array_counts, "BLOCK", 16)
    monkeypatch.setattr(group_counts, "MOST_CELLS", most_cells)
    channel = channel_of(sum(sizes), *sizes)
    entries, one = counted(channel, share, seed=2)
    several = np.zeros((3, VALUES))
    several[0, 2], several[1, [1, 3, 4]], several[2] = 1, 1, 1
    for h in (several[:1], several[1:2], several, np.eye(VALUES)):
        found, plain = (anatomised.estimate(channel, seen, asked(h)) for seen in (one, entries))
        for field in ("value", "variance", "covariance", "low", "high"):
            np.testing.assert_allclose(getattr(found, field), getattr(plain, field), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(found.minimum, plain.minimum)
        np.testing.assert_array_equal(found.maximum, plain.maximum)


def test_bounds_are_sums_over_the_groups() -> None:
    channel = channel_of(8, 3, 5)
    _, one = counted(channel, 0.6, seed=3)
    h = np.zeros((1, VALUES))
    h[0, [0, 5]] = 1
    low = high = 0
    assert isinstance(one.inside, PartCounts)
    for members, size, rows in zip(channel.groups.members.T, channel.groups.sizes, one.inside.rows, strict=False):
        held = int(np.isin(members, [0, 5]).sum())
        low, high = low + max(0, int(rows) + held - int(size)), high + min(int(rows), held)
    found = anatomised.estimate(channel, one, asked(h))
    assert found.minimum is not None
    assert found.maximum is not None
    assert (found.minimum[0, 0], found.maximum[0, 0]) == (low, high)
    assert 0 < low < high


def test_rows_of_a_group_that_holds_nothing_are_refused() -> None:
    channel = channel_of(1, 3, 3)
    _, one = counted(channel, 0.5, seed=1)
    with pytest.raises(IndexError, match="holds no values"):
        anatomised.estimate(
            channel, replace(one, inside=PartCounts(rows=np.ones(91, dtype=np.uint8))), asked(h=np.eye(7))
        )


def test_parts_are_counted_piece_by_piece() -> None:
    rng = np.random.default_rng(1)
    part = rng.integers(0, 500, 4_000).astype(np.int32)
    rows, found = part_counts(np.array_split(np.sort(part), 7))
    assert rows == len(part)
    assert found is not None
    np.testing.assert_array_equal(found.rows, np.bincount(part))
    assert part_counts([])[0] == 0
    assert part_counts([np.zeros(255, dtype=np.int32)])[1] is not None
    assert part_counts([np.zeros(256, dtype=np.int32)]) == (256, None), "more than a byte holds"


QUESTIONS = (
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'd01' AND area > 'area 2'",
    "SELECT COUNT(*) AS n FROM release WHERE disease IN ('d01', 'd03') AND grade > 3",
    "SELECT disease, COUNT(*) AS n FROM release WHERE sex = 'f' GROUP BY disease ORDER BY disease",
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'd01' AND grade > 1000",
    "SELECT COUNT(*) FILTER (WHERE disease = 'd02') / COUNT(*) AS share FROM release WHERE sex = 'm'",
    "SELECT COUNT(*) * COUNT(*) AS square FROM release WHERE disease = 'd02' AND sex = 'm'",
)


def test_answers_are_those_of_rows_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And errors that hang together look at rows again."""
    roles = sfumato.Roles(sensitive="disease", quasi=("area", "sex", "grade"), rest="drop")
    sfumato.publish(people(1_000), tmp_path / "out", roles=roles, method=sfumato.Anatomy(l=3), seed=2)

    def answers() -> list[sfumato.Answer]:
        return [sfumato.open_release(tmp_path / "out").sql(text) for text in QUESTIONS]

    seen: list[pa.Table] = []
    by_part = observing._counted_by_part

    def noted(*given: object) -> object:
        found = by_part(*given)
        seen.append(found)
        return found

    monkeypatch.setattr(observing, "_counted_by_part", noted)
    mine = answers()
    assert [found is not None for found in seen] == [True] * 5 + [False], "a computed number has errors by row"
    monkeypatch.setattr(observing, "_counted_by_part", lambda *_: None)
    for found, plain in zip(mine, answers(), strict=True):
        assert_same_numbers(found.rows(), plain.rows())
        assert (found.kind, found.caveats) == (plain.kind, plain.caveats)
    np.testing.assert_allclose(mine[2].covariance(), answers()[2].covariance(), rtol=1e-9)


@pytest.mark.parametrize("few", [0, 1_000])
def test_groups_of_some_sizes_are_laid_out(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger groups first, last and side by side, whether they are few or many."""
    monkeypatch.setattr(held_values, "FEW_LARGER", few)
    sizes = np.array([4, 3, 3, 5, 4, 3, 3, 3, 4], dtype=np.int32)
    codes = np.arange(int(sizes.sum()), dtype=np.uint8)
    found = held_values.groups_of_sizes(sizes, codes, 100)
    for column, mine in zip(found.members.T, np.split(codes, np.cumsum(sizes)[:-1]), strict=True):
        assert column.tolist() == [*mine.tolist(), *[100] * (5 - len(mine))]
