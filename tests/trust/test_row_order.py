"""The order of the rows carries nothing. A table sorted by disease is the test."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from commands import METHODS, sfumato
from constants import ALPHA
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
