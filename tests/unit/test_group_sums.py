"""Entries that are single rows, or strata finer than the output rows, give what entries counted together give."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from sfumato.answering.own_strata import estimate_apart
from sfumato.methods.anatomy import anatomised, group_sums
from sfumato.methods.anatomy.group_cells import shares_by_cell
from sfumato.model.part_cells import part_cells
from sfumato.model.public import Asked, Observed
from sfumato.model.sparse_table import SparseTable

VALUES, GROUPS, KEYS, STRATA = 9, 120, 3, 7


@pytest.fixture(scope="module")
def channel() -> anatomised.Channel:
    """Groups of three to five values."""
    rng = np.random.default_rng(3)
    held = [rng.permutation(VALUES)[: rng.integers(3, 6)] for _ in range(GROUPS)]
    number = np.repeat(np.arange(GROUPS), [len(h) for h in held])
    return anatomised.Channel(anatomised.groups_of(number, np.concatenate(held).astype(np.int32), VALUES))


def rows_of(channel: anatomised.Channel) -> Observed:
    """One entry per row: strata in no order, two patterns, several strata of one output row and pattern."""
    rng = np.random.default_rng(4)
    part = rng.permutation(np.repeat(np.arange(GROUPS), channel.groups.sizes.astype(int)))
    measure = rng.integers(1, 9, size=len(part)).astype(float)
    return Observed(
        stratum=rng.integers(0, STRATA, size=len(part)).astype(np.intp),
        part=part.astype(np.int64),
        value=np.zeros(len(part), dtype=np.intp),
        moments=np.column_stack([np.ones(len(part)), measure, measure**2]),
        key=np.array([0, 1, 2, 0, 1, 2, 0], dtype=np.intp),
        pattern=np.array([0, 0, 0, 0, 1, 1, 0], dtype=np.intp),
        keys=KEYS,
    )


def asked(h: np.ndarray) -> Asked:
    """Counts and sums of the functionals of two patterns, (2, F, values)."""
    F = h.shape[1]
    return Asked(
        units=(0,), classes=(np.arange(VALUES, dtype=np.int32),), coefficients=tuple(SparseTable.dense(x) for x in h),
        measure=np.array([0] * (F - 1) + [1], dtype=np.intp), products=np.array([[0, 1], [1, 2]], dtype=np.intp),
        pairs=np.array([[0, F - 1]], dtype=np.intp), binary=True, z=1.96,
    )  # fmt: skip


def questions() -> dict[str, np.ndarray]:
    several = np.zeros((2, 3, VALUES))
    several[0, 0, [1, 4]], several[1, 0, [2]], several[:, 1, 5], several[:, 2, 5] = 1, 1, 1, 1
    every = np.concatenate([np.tile(np.eye(VALUES), (2, 1, 1)), np.ones((2, 1, VALUES))], axis=1)
    return {"few values": several, "every value": every}


@pytest.mark.parametrize("name", questions())
@pytest.mark.parametrize("kept", ["by stratum", "by output row"])
def test_single_rows_of_finer_strata_give_the_same_as_merged_ones(
    name: str, kept: str, channel: anatomised.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimates up to rounding, bounds exactly: they are sums of whole numbers."""
    if kept == "by output row":
        monkeypatch.setattr(group_sums, "MOST_SHARES", 0)
    question, seen = asked(questions()[name]), rows_of(channel)
    found, merged = (
        estimate_apart(lambda o, a: anatomised.estimate(channel, o, a), seen, question, merged=m) for m in (False, True)
    )
    for field in ("value", "variance", "covariance", "low", "high"):
        np.testing.assert_allclose(getattr(found, field), getattr(merged, field), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.minimum, merged.minimum)
    np.testing.assert_array_equal(found.maximum, merged.maximum)
    assert (found.maximum[:, 0] > found.minimum[:, 0]).all()


@pytest.mark.parametrize("name", questions())
def test_cells_that_lie_in_groups_give_the_same_as_rows(name: str, channel: anatomised.Channel) -> None:
    """A cell for each stratum and measure; some rows are in cells that the question leaves out."""
    rows = rows_of(channel)
    _, cell = np.unique(np.column_stack([rows.stratum, rows.moments[:, 1]]), axis=0, return_inverse=True)
    inside = part_cells(rows.part, cell, int(cell.max()) + 1)
    asked_cells = np.flatnonzero(np.arange(inside.cells) % 5 > 0)
    stay = np.isin(cell, asked_cells)
    kept = replace(
        rows, stratum=rows.stratum[stay], part=rows.part[stay], value=rows.value[stay], moments=rows.moments[stay]
    )
    first = np.array([np.flatnonzero(cell == c)[0] for c in asked_cells])
    moments = np.stack([np.bincount(cell, weights=m)[asked_cells] for m in rows.moments.T], axis=1)
    none = np.zeros(len(first), dtype=np.int64)
    seen = replace(
        rows, stratum=rows.stratum[first], part=none, value=none, moments=moments, inside=inside, cell=asked_cells
    )
    found, plain = (anatomised.estimate(channel, o, asked(questions()[name])) for o in (seen, kept))
    for field in ("value", "variance", "covariance", "low", "high"):
        np.testing.assert_allclose(getattr(found, field), getattr(plain, field), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.minimum, plain.minimum)
    np.testing.assert_array_equal(found.maximum, plain.maximum)
    assert (found.maximum[:, 0] > found.minimum[:, 0]).all()


def test_bounds_are_those_of_the_rows_of_an_output_row_in_each_group(channel: anatomised.Channel) -> None:
    """Group by group, in a loop: max(0, c(P) + c(A) - |g|) and min(c(P), c(A))."""
    h, seen = questions()["few values"], rows_of(channel)
    found = anatomised.estimate(channel, seen, asked(h))
    low, high = np.zeros(KEYS), np.zeros(KEYS)
    for g in range(GROUPS):
        held = channel.groups.members[:, g]
        for k in range(KEYS):
            for pattern in range(2):
                strata = np.flatnonzero((seen.key == k) & (seen.pattern == pattern))
                inside = int((np.isin(seen.stratum, strata) & (seen.part == g)).sum())
                counted = int(h[pattern, 0][held[held < VALUES]].sum())
                low[k] += max(0, inside + counted - int(channel.groups.sizes[g]))
                high[k] += min(inside, counted)
    np.testing.assert_array_equal(found.minimum[:, 0], low)
    np.testing.assert_array_equal(found.maximum[:, 0], high)


def test_what_was_kept_of_other_entries_is_forgotten(channel: anatomised.Channel) -> None:
    question, seen = asked(questions()["few values"]), rows_of(channel)
    before = anatomised.estimate(channel, seen, question)
    other = Observed(
        stratum=seen.stratum, part=np.roll(seen.part, 1), value=seen.value, moments=seen.moments,
        key=seen.key, pattern=seen.pattern, keys=KEYS,
    )  # fmt: skip
    after = anatomised.estimate(channel, other, question)
    fresh = anatomised.estimate(anatomised.Channel(channel.groups), other, question)
    np.testing.assert_array_equal(after.value, fresh.value)
    np.testing.assert_array_equal(after.maximum, fresh.maximum)
    assert (before.value != after.value).any()


def test_the_same_entries_under_other_patterns(channel: anatomised.Channel) -> None:
    """Aggregates of one question cut the same rows in their own ways: what is kept of one is not that of another."""
    question, seen = asked(questions()["few values"]), rows_of(channel)
    anatomised.estimate(channel, seen, question)
    turned = replace(seen, pattern=1 - seen.pattern)
    found = anatomised.estimate(channel, turned, question)
    fresh = anatomised.estimate(anatomised.Channel(channel.groups), turned, question)
    np.testing.assert_array_equal(found.value, fresh.value)
    np.testing.assert_array_equal(found.minimum, fresh.minimum)
    np.testing.assert_array_equal(found.maximum, fresh.maximum)


def test_nothing_is_kept_of_entries_that_are_gone(channel: anatomised.Channel) -> None:
    seen = rows_of(channel)
    kept = weakref.ref(channel.entries.seen(seen))
    assert kept() is not None
    del seen
    gc.collect()
    assert kept() is None


def test_rows_in_a_group_without_values_are_not_passed_over(channel: anatomised.Channel) -> None:
    rows = rows_of(channel)
    part = np.append(rows.part[:-1], GROUPS)
    inside = part_cells(part, rows.stratum, STRATA)
    with pytest.raises(IndexError, match="holds no values"):
        shares_by_cell(channel.groups, inside)
