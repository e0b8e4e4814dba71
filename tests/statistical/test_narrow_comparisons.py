"""Shares of a value in groups of 15 and 26 rows, compared with a large group: how often the interval holds the truth.

RELEASES releases of one table by every method of the registry that compares. The law of few rows has steps, so that an
interval of 95 % may hold some truths a little less often: LEAST is asked for. False alarms: ALPHA for each of 4 numbers
of 6 methods, 2.4e-8 in all, where intervals hold as often as that. Fed in and rejected: estimates plus or minus z
standard errors, which missed in 46 of 200 releases of `uniform`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.redrawn import Redrawn
from scipy.stats import binom, norm

import sfumato as sf
from constants import ALPHA, SEED
from sfumato.errors import UnsupportedQuery
from sfumato.methods import REGISTRY

RELEASES, VALUES, LEAST = 200, 12, 0.925
GROUPS = {"all": 1_500, "few": 15, "some": 26}
SHARES = ("s = 6", "s IN (1, 3)")
METHODS = {
    "subset-response": sf.SubsetResponse(rho1="1/10", rho2="1/4"),
    "uniform": sf.UniformPerturbation(rho1="1/10", rho2="1/4"),
    "small-domain": sf.SmallDomain(rho1="1/10", rho2="1/4", min_size=300),
    "splu": sf.Splu(gamma=3),
    "randomized-response": sf.RandomizedResponse(scope="s", keep={"s": 0.5}),
    "anatomy": sf.Anatomy(l=3),
    "l-diversity": sf.LDiversity(l=3),
    "target-distribution": sf.TargetDistribution(),
    "distribution-draw": sf.DistributionDraw(),
}

pytestmark = pytest.mark.slow


@cache
def people() -> pa.Table:
    rng = np.random.default_rng(SEED)
    rows = sum(GROUPS.values())
    s = rng.choice(VALUES, rows, p=(p := 0.8 ** np.arange(VALUES)) / p.sum())
    return pa.table({"s": pa.array(s, pa.int32()), "by": np.repeat(list(GROUPS), list(GROUPS.values()))})


def truth(share: str) -> np.ndarray:
    s, by = (people()[name].to_numpy(zero_copy_only=False) for name in ("s", "by"))
    counted = s == 6 if share == "s = 6" else np.isin(s, (1, 3))
    means = np.array([counted[by == group].mean() for group in GROUPS])
    return means[1:] - means[0]


def drawn(name: str) -> np.ndarray | None:
    """(releases, shares x groups, 4): difference less the truth, its error, and both ends less the truth."""
    many = Redrawn(people(), roles=sf.Roles(sensitive="s", quasi=["by"]), method=METHODS[name])
    found = []
    for seed in range(RELEASES):
        release, row = many.release(seed), []
        for share in SHARES:
            try:
                compared = release.compare(share=share, by="by", target="table")
            except UnsupportedQuery:
                return None
            for group, true in zip(compared.groups[1:], truth(share), strict=True):
                row.append((group.difference - true, group.difference_se, group.low - true, group.high - true))
        found.append(row)
    return np.array(found)


def held_often_enough(low: np.ndarray, high: np.ndarray) -> bool:
    missed = ((low > 1e-9) | (high < -1e-9)).sum(axis=0)
    return bool((missed <= binom.isf(ALPHA, RELEASES, 1 - LEAST)).all())


@pytest.mark.parametrize("name", REGISTRY)
def test_differences_of_shares_in_narrow_groups_are_held(name: str) -> None:
    found = drawn(name)
    if found is None:
        pytest.skip("answers no comparison")
    assert held_often_enough(found[:, :, 2], found[:, :, 3])
    if name == "uniform":  # the checker is checked by plain intervals
        half = norm.isf(0.025) * found[:, :, 1]
        assert not held_often_enough(found[:, :, 0] - half, found[:, :, 0] + half)
