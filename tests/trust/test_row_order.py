"""The order of the rows carries nothing. A table sorted by disease is the test."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from commands import METHODS, sfumato
from constants import ALPHA
from sfumato.release.verify import BLOCKS, in_some_order
from sfumato.stats.tails import FALSE_ALARM
from tables import ROLES, people


@pytest.fixture(scope="module", params=METHODS)
def position(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """The source's row numbers in the order in which a release has them."""
    folder = tmp_path_factory.mktemp("order")
    pq.write_table(people(by_disease=True), folder / "sorted.parquet")
    options = (*ROLES, "--method", request.param, *METHODS[request.param])
    done = sfumato("publish", folder / "sorted.parquet", folder / "out", *options)
    assert done.code == 0, done.text
    return pq.read_table(folder / "out" / "data.parquet")["number"].to_numpy()


def test_order_is_independent_of_the_source(position: np.ndarray) -> None:
    """Spearman's rank correlation of source and release position, two-sided; false alarm ALPHA.

    With 1,246 rows a correlation of 0.18 is caught. The source order itself is rejected, as it must be.
    """
    assert sorted(position) == list(range(len(position)))
    assert stats.spearmanr(position, np.arange(len(position))).pvalue > ALPHA
    assert stats.spearmanr(np.sort(position), np.arange(len(position))).pvalue < ALPHA


def test_neighbours_in_the_source_are_no_neighbours_in_the_release(position: np.ndarray) -> None:
    """Rows next to each other that were so in the source: about 2 of 1,245 by chance, 20 or more with chance 1e-13."""
    assert np.count_nonzero(np.abs(np.diff(position)) == 1) < 20


# --- whether verify sees an order -------------------------------------------------------------------------------------

ROWS = 1_600


def mixed(values: np.ndarray) -> np.ndarray:
    return np.random.default_rng(1).permutation(values)


ORDERS = {
    "sorted": lambda v: v,
    "falling": lambda v: v[::-1],
    "sorted and mirrored": lambda v: np.concatenate([v[::2], v[1::2][::-1]]),
    "mirrored, each half at random": lambda v: np.concatenate([mixed(v[::2]), mixed(v[::2])[::-1]]),
    "sorted in every eighth": lambda v: v.reshape(-1, 8).T.ravel(),
    "dealt to five in turn": lambda v: v.reshape(5, -1).T.ravel(),
    "dealt to a hundred in turn": lambda v: v.reshape(100, -1).T.ravel(),
    "equal values side by side": lambda v: mixed(v.reshape(-1, 2)).ravel(),
    "sorted in the middle": lambda v: np.concatenate([mixed(v)[:600], np.sort(mixed(v)[600:1000]), mixed(v)[1000:]]),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("values", [2, 9, 400, ROWS])
def test_an_order_is_seen(order: str, values: int) -> None:
    column = ORDERS[order](np.arange(ROWS) * values // ROWS)
    assert in_some_order(pa.array(column), BLOCKS, FALSE_ALARM)
    assert in_some_order(pa.array(column.astype(str)), BLOCKS, FALSE_ALARM)


@pytest.mark.parametrize("column", [
    pa.array(np.random.default_rng(1).integers(-40, 40, 3_001)),
    pa.array(np.random.default_rng(4).integers(-(1 << 40), 1 << 40, 3_001)),
    pa.array(np.random.default_rng(5).integers(0, 99, 2_001).astype(np.uint64) + np.uint64((1 << 64) - 99)),
    pa.array(np.random.default_rng(6).choice([-(1 << 63), (1 << 63) - 1], 2_001)),
    pa.array(np.random.default_rng(7).integers(-(1 << 15), 1 << 15, 2_001).astype(np.int16)),
    pa.array(np.random.default_rng(8).choice([-128, 0, 127], 2_001).astype(np.int8)),
    pa.array(np.random.default_rng(9).integers(0, 256, 2_001).astype(np.uint8)),
    pa.array(np.random.default_rng(3).normal(size=2_000)),
    pa.array([None, "b", "a", None, "b", "a", "a", "zz"] * 300).take(np.random.default_rng(1).permutation(2_400)),
    pa.array([7] * 100),
    pa.array([3]),
    pa.array([], pa.int8()),
    pa.nulls(40),
])  # fmt: skip
def test_a_random_order_is_none(column: pa.Array) -> None:
    """Seldom alarmed, whatever the type: with an alarm of 1e-3 rather than 1e-9 not once in these orders."""
    assert not in_some_order(column, BLOCKS, 1e-3)


def test_a_false_alarm_is_as_rare_as_stated() -> None:
    """At most 1 in 20 random orders with an alarm of 1/20; the limits of tails are far from it."""
    rng = np.random.default_rng(2)
    alarms = sum(in_some_order(pa.array(rng.permutation(ROWS) // 300), BLOCKS, 0.05) for _ in range(200))
    assert stats.binomtest(alarms, 200, 0.05, alternative="greater").pvalue > ALPHA


def test_the_power_that_is_stated() -> None:
    """docs/explanation/threats.md: neighbours with a correlation of 16 / sqrt(rows)."""
    rng, rows = np.random.default_rng(3), 40_000
    same = rng.random(rows) < 16 / np.sqrt(rows)  # the row repeats the value of the one before
    column = rng.integers(0, 2, rows)
    column[1::2] = np.where(same[1::2], column[::2], column[1::2])
    assert in_some_order(pa.array(column), BLOCKS, FALSE_ALARM / 10)
