"""Shorter ways to the same counts: what planning has counted, running counts of ranks, domains without a group-by."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.engines.duckdb.table import LocalEngine
from sfumato.model.private import Needs
from sfumato.model.public import Roles
from sfumato.publishing.custodian import _values_alone, sensitive_units
from sfumato.release.verify import CUTS, _running_counts
from sfumato.stats.joint_codes import distinct_rows
from sfumato.stats.tails import crowded


def table(rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(5)
    letters = np.array(["b", "a", "", "c"])[rng.integers(0, 4, rows)]
    return pa.table({"x": letters, "y": rng.integers(0, 3, rows), "z": rng.integers(0, 5, rows)})


@pytest.mark.parametrize("units", [(("x",),), (("x", "z"),), (("z",), ("x",))])
def test_values_alone_are_the_cells_of_no_quasi_identifier(units: tuple[tuple[str, ...], ...]) -> None:
    opened = LocalEngine().open(table())
    sensitive = tuple(name for unit in units for name in unit)
    needs = Needs(units=(*units, ("y",)), joints=((*range(len(units)), len(units)),), changed=(True,) * 2 + (False,))
    profile = opened.profile(needs, {}, null_as_value=False)
    roles = Roles(sensitive=sensitive, quasi=("y",), rest="drop")
    numbers = sensitive_units(roles, needs)
    short = _values_alone(profile, needs, numbers)
    long = opened.cells((), [profile.domains[u] for u in numbers], {}, limit=profile.rows)
    assert short is not None
    assert long is not None
    assert np.array_equal(short.codes, long.codes)
    assert np.array_equal(short.of_values(), long.of_values())
    assert short.cells == long.cells == 1


def test_values_that_were_not_counted_together_are_left_to_the_engine() -> None:
    opened = LocalEngine().open(table())
    needs = Needs(units=(("x",), ("z",)), joints=((0,), (1,)), changed=(True, True))
    assert _values_alone(opened.profile(needs, {}, null_as_value=False), needs, (0, 1)) is None


def test_domains_are_sorted_and_end_with_what_is_missing() -> None:
    rows = pa.table(
        {"x": ["b", None, "a", "b", None], "y": pa.array([2, 1, None, 1, 1], pa.int16()), "z": [3, 1, 2, None, 1]}
    )
    needs = Needs(units=(("x", "y"), ("z",)), joints=((0, 1),), changed=(True, True))
    profile = LocalEngine().open(rows).profile(needs, {}, null_as_value=True)
    assert profile.domains[0].values == (("a", None), ("b", 1), ("b", 2), (None, 1))
    assert profile.domains[1].values == ((1,), (2,), (3,), (None,))


@pytest.mark.parametrize("column", [
    pa.array(np.random.default_rng(1).integers(-40, 40, 3_001)),
    pa.array(np.sort(np.random.default_rng(2).integers(0, 9, 3_000))),
    pa.array(np.random.default_rng(4).integers(-(1 << 40), 1 << 40, 3_001)),
    pa.array(np.random.default_rng(5).integers(0, 99, 2_001).astype(np.uint64) + np.uint64((1 << 64) - 99)),
    pa.array(np.random.default_rng(6).choice([-(1 << 63), (1 << 63) - 1], 2_001)),
    pa.array(np.random.default_rng(7).integers(-(1 << 15), 1 << 15, 2_001).astype(np.int16)),
    pa.array(np.random.default_rng(8).choice([-128, 0, 127], 2_001).astype(np.int8)),
    pa.array(np.random.default_rng(9).integers(0, 256, 2_001).astype(np.uint8)),
    pa.array(np.random.default_rng(3).normal(size=2_000)),
    pa.array([None, "b", "a", None, "b", "a", "a", "zz"] * 300),
    pa.array([7] * 100),
])  # fmt: skip
def test_running_counts_are_those_of_ranks(column: pa.Array) -> None:
    half, distinct = len(column) // 2, pc.unique(column)
    place = np.empty(len(distinct), dtype=np.int64)
    place[pc.sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    rank = place[pc.index_in(column, value_set=distinct).to_numpy(zero_copy_only=False)]
    upto, first = _running_counts(column, half)
    quantiles = np.linspace(0, 1, CUTS + 2)[1:-1]
    cuts = np.unique(np.quantile(rank, quantiles, method="lower"))
    assert np.array_equal(np.unique(np.searchsorted(upto, np.floor((len(rank) - 1) * quantiles), side="right")), cuts)
    assert np.array_equal(upto[cuts], [np.count_nonzero(rank <= cut) for cut in cuts])
    assert np.array_equal(first[cuts], [np.count_nonzero(rank[:half] <= cut) for cut in cuts])
    assert crowded(first[cuts], upto[cuts], len(rank), half) == (len(column) == 3_000)


def test_distinct_rows_in_their_order() -> None:
    rng = np.random.default_rng(9)
    columns = [rng.integers(0, 40, 30_000), np.full(30_000, 3), rng.integers(0, 900, 30_000)]
    rows, place = distinct_rows(columns, 30_000)
    kept, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    assert np.array_equal(rows, kept)
    assert np.array_equal(place, inverse.reshape(-1))
