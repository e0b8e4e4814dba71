"""Shorter ways to the same counts: what planning has counted, running counts of ranks, domains without a group-by."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb.table import LocalEngine
from sfumato.model.private import Needs
from sfumato.model.public import Roles
from sfumato.publishing.custodian import _values_alone, sensitive_units
from sfumato.stats.joint_codes import distinct_rows


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


def test_distinct_rows_in_their_order() -> None:
    rng = np.random.default_rng(9)
    columns = [rng.integers(0, 40, 30_000), np.full(30_000, 3), rng.integers(0, 900, 30_000)]
    rows, place = distinct_rows(columns, 30_000)
    kept, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    assert np.array_equal(rows, kept)
    assert np.array_equal(place, inverse.reshape(-1))
