"""The order of the rows carries nothing. A table sorted by disease is the test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from commands import METHODS, sfumato
from constants import ALPHA
from tables import ROLES, people


@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_order_is_independent_of_the_source(method: str, tmp_path: Path) -> None:
    """Spearman's rank correlation of source and release position, two-sided; false alarm ALPHA.

    With 1,246 rows a correlation of 0.18 is caught. The source order itself is rejected, as it must be.
    """
    position = _published_order(method, tmp_path)
    assert sorted(position) == list(range(len(position)))
    assert stats.spearmanr(position, np.arange(len(position))).pvalue > ALPHA
    assert stats.spearmanr(np.sort(position), np.arange(len(position))).pvalue < ALPHA


@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_neighbours_in_the_source_are_no_neighbours_in_the_release(method: str, tmp_path: Path) -> None:
    """Rows next to each other that were so in the source: about 2 of 1,245 by chance, 20 or more with chance 1e-13."""
    position = _published_order(method, tmp_path)
    assert np.count_nonzero(np.abs(np.diff(position)) == 1) < 20


def _published_order(method: str, folder: Path) -> np.ndarray:
    """The source's row numbers in the order in which the release has them."""
    pq.write_table(people(by_disease=True), folder / "sorted.parquet")
    done = sfumato("publish", folder / "sorted.parquet", folder / "out", *ROLES, "--method", method, *METHODS[method])
    assert done.code == 0, done.text
    return pq.read_table(folder / "out" / "data.parquet")["number"].to_numpy()
