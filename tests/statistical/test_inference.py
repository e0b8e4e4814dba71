"""Sums over true rows and fits, over repeated releases: no bias, and the covariance that is stated.

FUNCTIONS sums of a cell and a value are asked of RELEASES releases of 12,000 rows of Adult. If values are right, the
errors, whitened by the stated covariance, are standard normal: the sum of their squares over all releases is chi-square
with RELEASES * FUNCTIONS = 800 degrees of freedom, that of their mean with FUNCTIONS. False alarms: ALPHA for each of
the 2 tests of each of 5 methods and, for the population, of 3, and of each method's fits: 2.1e-8 in all. Smallest
fault that is caught with certainty: standard errors 30 % too small or too large; both are fed in.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benchmarks.redrawn import Redrawn
from scipy.stats import chi2

import sfumato as sf
from constants import ALPHA, SEED
from sfumato.analysis.cells import read
from sfumato.laws.functionals import Functions

RELEASES, FUNCTIONS, ROWS = 20, 40, 12_000
METHODS = {
    "uniform": lambda: sf.UniformPerturbation(rho1="1/5", rho2="4/5"),
    "small-domain": lambda: sf.SmallDomain(rho1="1/5", rho2="3/5"),
    "randomized-response": lambda: sf.RandomizedResponse(scope="s", keep={"occupation": "0.6"}),
    "splu": lambda: sf.Splu(gamma=3),
    "anatomy": lambda: sf.Anatomy(l=3),
}
GROUPS = {
    "occupation": {
        "Professional": ["Exec-managerial", "Prof-specialty"],
        "Office": [
            "Adm-clerical", "Sales", "Tech-support",
            "Other-service", "Protective-serv", "Priv-house-serv", "Armed-Forces",
        ],
        "Manual": [
            "Craft-repair", "Transport-moving", "Machine-op-inspct", "Handlers-cleaners", "Farming-fishing", None,
        ],
    }
}  # fmt: skip
FORMULA = "income ~ decade + sex + C(occupation)"
ROLES = sf.Roles(sensitive="occupation", rest="quasi")

pytestmark = pytest.mark.slow


@cache
def whole() -> pa.Table:
    table = sf.datasets.adult()
    decade = pc.cast(pc.floor(pc.divide(pc.cast(table["age"], pa.float64()), 10.0)), pa.int64())
    return table.select(["sex", "income", "occupation"]).append_column("decade", pc.min_element_wise(decade, 6))


@cache
def places() -> dict[str | None, int]:
    """Where the occupations stand: in the order in which Adult has them."""
    return {name: i for i, name in enumerate(sf.datasets.adult()["occupation"].unique().to_pylist())}


@cache
def half() -> pa.Table:
    order = np.random.default_rng(SEED).permutation(whole().num_rows)
    return whole().take(order[:ROWS])


def numbers(grid: Any) -> np.ndarray:
    """(cells, functions, values): smooth numbers of the labels, the same whatever order they come in."""
    decade = grid.variables["decade"].numbers().ravel()[:, None]
    female = np.array([v == "Female" for v in grid.variables["sex"].values])[grid.variables["sex"].codes]
    names = [places()[v] for v in grid.variables["occupation"].values]
    value = np.array(names)[grid.variables["occupation"].codes]
    k = np.arange(FUNCTIONS)[None, :, None]
    # every function tells both cells and values apart: one of either alone may be known without any error
    return np.cos((k + 1) * (1 + 0.37 * value[:, None, :])) * np.cos(
        (k % 6 + 0.5) * decade[:, :, None] + (k % 4) * female[:, :, None]
    )


@cache
def true_sums(table: Any) -> np.ndarray:
    kept = sf.RandomizedResponse(scope="qi", keep={"occupation": "1"})
    release = sf.publish(table(), roles=ROLES, method=kept, seed=0, null_as_value=True)
    grid = read(release.subject, ("decade", "sex", "occupation"))
    return grid.functionals.value(Functions.of(numbers(grid)))


@cache
def true_fit() -> np.ndarray:
    kept = sf.RandomizedResponse(scope="qi", keep={"occupation": "1"})
    release = sf.publish(half(), roles=ROLES, method=kept, seed=0, null_as_value=True)
    return release.fit(FORMULA, family="binomial", recode=GROUPS).estimates


def whitened(error: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    return np.linalg.solve(np.linalg.cholesky(covariance), error)


def spread_is_right(errors: np.ndarray) -> bool:
    """Whether the squares of whitened errors (releases, functions) add up to what they must."""
    low, high = chi2.ppf(ALPHA / 2, errors.size), chi2.isf(ALPHA / 2, errors.size)
    return bool(low < (errors**2).sum() < high)


def mean_is_right(errors: np.ndarray) -> bool:
    """Whether their mean over releases is 0."""
    return bool(len(errors) * (errors.mean(axis=0) ** 2).sum() < chi2.isf(ALPHA, errors.shape[1]))


@pytest.mark.parametrize("name", METHODS)
def test_sums_of_the_publishers_own_rows(name: str) -> None:
    sums, fits = [], []
    many = Redrawn(half(), roles=ROLES, method=METHODS[name](), null_as_value=True)
    for seed in range(RELEASES):
        release = many.release(seed)
        grid = read(release.subject, ("decade", "sex", "occupation"))
        functions = Functions.of(numbers(grid))
        found = grid.functionals.value(functions) - true_sums(half)
        sums.append(whitened(found, grid.functionals.covariance(functions, "table")))
        model = release.fit(FORMULA, family="binomial", recode=GROUPS, target="table")
        fits.append(whitened(model.estimates - true_fit(), model.cov_params().to_numpy()))
    errors = np.array(sums)
    assert mean_is_right(errors)
    assert spread_is_right(errors)
    assert spread_is_right(np.array(fits))
    assert not spread_is_right(errors / 0.7)
    assert not spread_is_right(errors / 1.3)
    assert not mean_is_right(errors + 1.5)


@pytest.mark.parametrize("name", ["randomized-response", "splu", "anatomy"])
def test_sums_of_a_population_of_which_the_rows_are_a_sample(name: str) -> None:
    rng = np.random.default_rng(SEED + 1)
    sums = []
    expected = true_sums(whole) * ROWS / whole().num_rows
    for seed in range(RELEASES):
        table = whole().take(rng.integers(0, whole().num_rows, ROWS))
        release = sf.publish(table, roles=ROLES, method=METHODS[name](), seed=seed, null_as_value=True)
        grid = read(release.subject, ("decade", "sex", "occupation"))
        if (
            len(grid.variables["occupation"].values) < 15
        ):  # a rare value was not drawn, so it has no place in the domain
            continue
        functions = Functions.of(numbers(grid))
        found = grid.functionals.value(functions) - expected
        sums.append(whitened(found, grid.functionals.covariance(functions, "population")))
    errors = np.array(sums)
    assert len(errors) >= RELEASES // 2
    assert mean_is_right(errors)
    assert spread_is_right(errors)
