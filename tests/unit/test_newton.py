"""Fits where nothing is randomised equal Newton's method on rows with the robust sandwich; refusals have names."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from sfumato.analysis.design import family_of
from sfumato.analysis.newton import Problem, solve
from sfumato.errors import UnsupportedQuery
from sfumato.laws.functionals import Cells, IndependentRows, KroneckerWeights, redraw_weights

N = 400


def rows() -> tuple[np.ndarray, np.ndarray]:
    """(cell of every row, true value of every row): 6 cells, 3 values that go with the cell."""
    rng = np.random.default_rng(17)
    cell = rng.integers(0, 6, N)
    value = (rng.random(N)[:, None] > np.cumsum(np.array([0.5, 0.3]) - 0.05 * cell[:, None], axis=1)).sum(axis=1)
    return cell, value


def design() -> np.ndarray:
    """(cells, values, 4): intercept, a number of the cell, two levels of the value."""
    x = np.zeros((6, 3, 4))
    x[:, :, 0] = 1
    x[:, :, 1] = np.linspace(-1, 1.5, 6)[:, None]
    x[:, 1, 2] = x[:, 2, 3] = 1
    return x


def outcome(family: str, cell: np.ndarray, value: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(18)
    eta = design()[cell, value] @ np.array([-0.3, 0.5, 0.4, -0.6])
    return {
        "gaussian": eta + rng.normal(size=N),
        "binomial": (rng.random(N) < expit(eta)).astype(float),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
        "multinomial": rng.integers(0, 3, N).astype(float),
    }[family]


def problem(family: str, measures: np.ndarray, equations: int, weight_measure: int, **changes: object) -> Problem:
    cell, value = rows()
    both = np.column_stack([np.ones(N), measures])
    cells = Cells(
        cell=cell,
        part=np.zeros(N, np.int64),
        value=value,
        moments=both[:, :, None] * both[:, None, :],
        cells=6,
        rows=N,
    )
    found = {
        "family": family_of(family),
        "x": design(),
        "names": ("Intercept", "age", "work[b]", "work[c]"),
        "weight": np.ones((6, 3)),
        "outcome": None,
        "outcome_measures": tuple(range(both.shape[1] - equations, both.shape[1])),
        "weight_measure": weight_measure,
        "functionals": IndependentRows(cells, KroneckerWeights(axes=(None,), shape=(3,))),
        "cells": cells,
        "cell_rows": np.bincount(cell, minlength=6).astype(float),
    }
    return Problem(**(found | changes))  # type: ignore[arg-type]


def by_rows(family: str, X: np.ndarray, Y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(coefficients, HC0 covariance) by Newton's method on rows; Y (n, J)."""
    J, P, chosen = Y.shape[1], X.shape[1], family_of(family)
    beta = np.zeros(J * P)
    for _ in range(60):
        eta = X @ beta.reshape(J, P).T
        u = (weight[:, None] * (Y - chosen.mean(eta)))[:, :, None] * X[:, None, :]
        A = np.einsum("n,njk,np,nq->jpkq", weight, chosen.slope(eta), X, X).reshape(J * P, J * P)
        beta = beta + np.linalg.solve(A, u.reshape(len(X), -1).sum(axis=0))
    u = u.reshape(len(X), -1)
    inverse = np.linalg.inv(A)
    return beta, inverse @ (u.T @ u) @ inverse


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "multinomial"])
def test_without_randomisation_a_fit_is_the_ordinary_one(family: str, weighted: bool) -> None:
    cell, value = rows()
    y = outcome(family, cell, value)
    Y = np.stack([y == 1, y == 2], axis=1).astype(float) if family == "multinomial" else y[:, None]
    weight = np.linspace(0.5, 2, N) if weighted else np.ones(N)
    measures = np.column_stack([weight, Y * weight[:, None]]) if weighted else Y
    asked = problem(family, measures, Y.shape[1], int(weighted))
    found = solve(asked, [str(i) for i in range(asked.size)])
    beta, covariance = by_rows(family, design()[cell, value], Y, weight)
    np.testing.assert_allclose(found.params, beta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.covariance["population"], covariance, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(found.covariance["table"], 0)
    assert np.isinf(found.information).all()


@pytest.mark.parametrize("family", ["binomial", "multinomial"])
def test_an_outcome_on_the_grid_is_the_same_as_on_rows(family: str) -> None:
    """The value is the outcome: its indicator on the grid gives the fit of rows on the cell's columns."""
    cell, value = rows()
    levels = (1,) if family == "binomial" else (1, 2)
    table = np.stack([np.broadcast_to((np.arange(3) == lv).astype(float), (1, 3)) for lv in levels])
    asked = problem(
        family,
        np.zeros((N, 0)),
        0,
        0,
        x=design()[:, :1, :2],
        names=("Intercept", "age"),
        outcome=table,
        outcome_measures=(),
    )
    found = solve(asked, [str(i) for i in range(asked.size)])
    Y = np.stack([value == lv for lv in levels], axis=1).astype(float)
    beta, covariance = by_rows(family, design()[cell, 0, :2], Y, np.ones(N))
    np.testing.assert_allclose(found.params, beta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.covariance["population"], covariance, rtol=1e-6)


def test_rows_of_weight_zero_do_not_count() -> None:
    cell, value = rows()
    y = outcome("poisson", cell, value)[:, None]
    weight = np.ones((6, 3))
    weight[:, 2] = 0
    asked = problem("poisson", y, 1, 0, x=design()[:, :, :3], names=("Intercept", "age", "work[b]"), weight=weight)
    kept = value != 2
    beta, covariance = by_rows("poisson", design()[cell, value][kept][:, :3], y[kept], np.ones(int(kept.sum())))
    found = solve(asked, ["a", "b", "c"])
    np.testing.assert_allclose(found.params, beta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.covariance["population"], covariance, rtol=1e-6)


def test_columns_that_determine_each_other_are_named() -> None:
    x = np.concatenate([design(), 2 * design()[:, :, 2:3]], axis=2)
    asked = problem("gaussian", np.ones((N, 1)), 1, 0, x=x, names=("Intercept", "age", "work[b]", "work[c]", "twice"))
    with pytest.raises(UnsupportedQuery, match=r"determine each other: work\[b\], twice;"):
        solve(asked, list("abcde"))


def test_separation_has_no_finite_solution() -> None:
    cell, _ = rows()
    asked = problem("binomial", (cell >= 3).astype(float)[:, None], 1, 0)
    with pytest.raises(UnsupportedQuery, match="no finite solution"):
        solve(asked, ["Intercept", "age", "work[b]", "work[c]"])


def test_too_little_information_is_refused_with_the_level() -> None:
    """A heavy channel over few rows: the same problem with a light one is answered."""
    cell, value = rows()
    y = outcome("gaussian", cell, value)[:, None]

    def channel(theta: float) -> object:
        B = redraw_weights(theta, (1 - theta) / 3, np.ones(3))
        cells = problem("gaussian", y, 1, 0).cells
        return IndependentRows(cells, KroneckerWeights(axes=(B,), shape=(3,)))

    labels = ["Intercept", "age", "work[b]", "work[c]"]
    solved = solve(problem("gaussian", y, 1, 0, functionals=channel(0.95)), labels)
    assert (solved.information > 3).all()
    with pytest.raises(UnsupportedQuery, match=r"too little information about .*work\[[bc]\].*merge levels"):
        solve(problem("gaussian", y, 1, 0, functionals=channel(0.1)), labels)
