"""splu on the census stand-in with conditions that go with the occupation: no bias, intervals that cover.

20 releases; false alarm ALPHA for each assertion that holds. `python -m benchmarks.splu bias` runs 200.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from benchmarks.splu import Z, answer, load, paper, publish, tally
from scipy import stats

from constants import ALPHA, SEED

pytestmark = pytest.mark.slow
RELEASES = 20


@pytest.mark.skipif("SFUMATO_DATA" not in os.environ, reason="SFUMATO_DATA names the folder with the larger tables")
@pytest.mark.parametrize("size", [5, 8])
def test_conditions_that_go_with_the_occupation(size: int) -> None:
    table = load("census_like_acs2018", ["workclass", "education", "gender", "occupation"])
    codes, rng = table.pop("occupation"), np.random.default_rng(SEED + size)
    masks = np.array([table[c] == v for c in table for v in range(table[c].max() + 1)])
    truth = tally(masks, codes, 50)
    asked = truth >= 0.001 * len(codes)
    errors, covered, published_form = [], [], []
    for _ in range(RELEASES):
        published = publish(codes, size, rng)
        found = answer(published, masks, size, 50)
        errors.append(np.mean((found.value - truth)[asked] / truth[asked]))
        covered.append(np.mean(np.abs(found.value - truth)[asked] <= Z * np.sqrt(found.variance[asked])))
        published_form.append(np.mean((paper(published, masks, size, 50, asked) - truth)[asked] / truth[asked]))
    limit = stats.t.isf(ALPHA / 2, RELEASES - 1) / np.sqrt(RELEASES)
    assert abs(np.mean(errors)) < limit * np.std(errors, ddof=1)
    assert abs(np.mean(published_form)) > limit * np.std(published_form, ddof=1)  # the SPLU paper's estimator is biased
    margin = limit * np.std(covered, ddof=1)
    assert 0.93 - margin < np.mean(covered) < 0.975 + margin
