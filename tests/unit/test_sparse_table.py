"""Sparse tables give the numbers that scipy's sparse arrays give, for few entries and for many."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.model import sparse_table
from sfumato.model.sparse_table import SparseTable


@pytest.fixture(params=["numpy", "scipy"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operation by numpy, or every one by scipy that it may be handed to."""
    monkeypatch.setattr(sparse_table, "MANY", 10**9 if request.param == "numpy" else -1)


def entries(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole numbers, so that sums are exact, at places of which some come twice and some not at all."""
    n = int(rng.integers(0, 2 * shape[0] * shape[1] + 1))
    return (
        rng.integers(1, 5, size=n).astype(float),
        rng.integers(0, shape[0], size=n),
        rng.integers(0, shape[1], size=n),
    )


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("seed", range(20))
def test_every_operation_agrees_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, inner = (int(rng.integers(1, 7)), int(rng.integers(1, 7))), int(rng.integers(1, 5))
    given, other, third = entries(rng, shape), entries(rng, shape), entries(rng, (shape[1], inner))
    ours, same, right = (SparseTable.of(*g, s) for g, s in ((given, shape), (other, shape), (third, (shape[1], inner))))
    theirs, like, factor = (
        sp.csr_array((d, (r, c)), shape=s).toarray()
        for (d, r, c), s in ((given, shape), (other, shape), (third, (shape[1], inner)))
    )
    rows, columns = rng.integers(0, shape[0], size=4), rng.integers(0, shape[1], size=5)
    dense = rng.integers(-3, 4, size=(shape[1], 3)).astype(float)
    for found, expected in (
        (ours.toarray(), theirs),
        (SparseTable.dense(theirs).toarray(), theirs),
        (ours.T.toarray(), theirs.T),
        (ours[rows].toarray(), theirs[rows]),
        (ours[::2].toarray(), theirs[::2]),
        (ours[:, columns].toarray(), theirs[:, columns]),
        (ours[rows, :].toarray(), theirs[rows]),
        (ours @ dense, theirs @ dense),
        (ours @ dense[:, 0], theirs @ dense[:, 0]),
        (ours.product(right).toarray(), theirs @ factor),
        (ours.multiply(same).toarray(), theirs * like),
        ((ours - same).toarray(), theirs - like),
        (abs(-ours).toarray(), theirs),
        (ours.power(2).toarray(), theirs**2),
        (ours.sum(axis=0), theirs.sum(axis=0)),
        (ours.sum(axis=1), theirs.sum(axis=1)),
        (ours.extreme(np.maximum), theirs.max(axis=1)),
        ((-ours).extreme(np.minimum), -theirs.max(axis=1)),
        (ours.extreme(np.minimum), theirs.min(axis=1)),
        (ours.at(rows, columns[:4]), theirs[rows, columns[:4]]),
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("many")
def test_entries_are_ascending_and_zeros_go_where_numbers_change() -> None:
    table = SparseTable.of(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 1, 1]), np.array([2, 1, 0, 2]), (3, 3))
    assert table.indptr.tolist() == [0, 1, 3, 3]
    assert table.indices.tolist() == [1, 0, 2]
    assert table.data.tolist() == [2.0, 3.0, 5.0]
    assert table.with_data(np.array([0.0, 1.0, 0.0])).indptr.tolist() == [0, 0, 1, 1]
    assert len((table - table).data) == 0
    assert SparseTable.of(np.empty(0), np.empty(0, int), np.empty(0, int), (2, 0)).toarray().shape == (2, 0)
