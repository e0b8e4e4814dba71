"""The error foreseen from a plan is the error that releases show.

Per method: R releases, one cell in each of six disjoint parts of the table. With e = estimate - mean and s the foreseen
standard error, the sum of (e / s)^2 over cells and releases is close to chi-square with 6 R degrees of freedom: records
are randomised independently, and each cell sums hundreds of them. Bounds at ALPHA / 2 on either side: the false-alarm
probability is ALPHA per method and number of releases up to that approximation. By MANY releases a foreseen error 30 %
too low or too high is rejected, by FEW one four times too low or too high.
`splu` and `anatomy` draw groups over the whole table, which ties the parts together weakly (by less than 1 / 6 of the
variance); the same bounds are used with half the degrees of freedom, which widens them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2

from comparing import people, roles
from constants import ALPHA, SEED
from sfumato.choosing.compare import make_setting
from sfumato.choosing.foresee import ExpectedRelease
from sfumato.choosing.measure import trial
from sfumato.choosing.setting import spec_of
from sfumato.methods import REGISTRY
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

FEW, MANY = 10, 45  # releases: in `make test`, and besides in `make test-all`
SQL = "SELECT area, COUNT(*) AS n FROM release WHERE disease = 'd03' GROUP BY area ORDER BY area"
TABLE = people(rows=3000)


@cache
def scores(method: str, releases: int) -> np.typing.NDArray[np.float64]:
    """((estimate - mean) / foreseen standard error) of every cell and release."""
    setting = make_setting(TABLE, roles=roles(("area", "sex")), bound="1/3", conditions=5)
    spec = spec_of(REGISTRY[method].at_bound(setting.facts, setting.tau, setting.rho1)[0])
    found, prepared, foreseen = [], None, None
    for k in range(releases):
        secret = Secret.from_seed(SEED + k)
        if prepared is None or foreseen is None or prepared.planned.law.plan_draws:
            prepared = prepare(TABLE, roles=setting.roles, method=spec, secret=secret)
            foreseen = ExpectedRelease(prepared, setting.truth).sql(SQL).table
        with trial(prepared, secret) as release:
            seen = release.sql(SQL).table["n"].to_numpy()
        found.append((seen - foreseen["n"].to_numpy()) / foreseen["n_se"].to_numpy())
    return np.array(found)


def accepted(z: np.typing.NDArray[np.float64], freedom: float) -> bool:
    """Whether the mean square of z could be 1."""
    mean = float((z**2).mean())
    return bool(chi2.ppf(ALPHA / 2, freedom) / freedom < mean < chi2.isf(ALPHA / 2, freedom) / freedom)


@pytest.mark.parametrize("releases", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("method", "share"),
    [
        ("subset-response", 1.0),
        ("uniform", 1.0),
        ("small-domain", 1.0),
        ("randomized-response", 1.0),
        ("splu", 0.5),
        ("anatomy", 0.5),
    ],
)
def test_releases_err_as_foreseen(method: str, share: float, releases: int) -> None:
    z = scores(method, releases)
    assert accepted(z, share * z.size), (z**2).mean()


@pytest.mark.slow
def test_a_wrong_prediction_is_rejected() -> None:
    z = scores("uniform", MANY)
    assert not accepted(z / 0.7, z.size)
    assert not accepted(z / 1.45, z.size)
