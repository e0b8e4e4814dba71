"""Fits and tests on seeded releases of the bundled Adult table, against numbers from an independent computation.

`inference_adult.json` was made by a separate program that shares no code with the package: it read the published rows
of these very releases (seed 1), wrote every channel, weight and covariance out as plain matrices, checked both by
enumeration on tiny tables, and solved the scores by Newton's method from 0. `truth` is the ordinary logistic
regression on the original rows. Where the stream of random draws changes, these releases have other bytes and the
file must be made anew; the statistical tests hold without it. Those of anatomy and splu were written by earlier
versions, whose streams were others, and are kept beside this file, with the columns that are asked for.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato import datasets
from sfumato.analysis.association import WALD, TwoWayTable

EXPECTED = json.loads((Path(__file__).parent / "inference_adult.json").read_text(encoding="utf-8"))
GROUPS = {
    "Professional": ["Exec-managerial", "Prof-specialty"],
    "Office": ["Adm-clerical", "Sales", "Tech-support"],
    "Manual": ["Craft-repair", "Transport-moving", "Machine-op-inspct", "Handlers-cleaners", "Farming-fishing"],
    "Service": ["Other-service", "Protective-serv", "Priv-house-serv", "Armed-Forces"],
    "none": [None],
}
METHODS = {
    "uniform": lambda: sfumato.UniformPerturbation(rho1="1/5", rho2="1/2"),
    "randomized-response": lambda: sfumato.RandomizedResponse(scope="s", keep={"occupation": "0.6"}),
    "splu": lambda: sfumato.Splu(gamma=4),
    "anatomy": lambda: sfumato.Anatomy(l=4),
}
FORMULA = "income ~ age + sex + C(occupation)"
TOLERANCE = 1e-4  # of a standard error

pytestmark = pytest.mark.slow


@cache
def release(method: str) -> Any:
    kept = Path(__file__).parent / f"{method}_adult"
    if kept.exists():
        return sfumato.open_release(kept)
    roles = sfumato.Roles(sensitive="occupation", rest="quasi")
    return sfumato.publish(datasets.adult(), roles=roles, method=METHODS[method](), seed=1, null_as_value=True)


@pytest.mark.parametrize("method", METHODS)
def test_the_logistic_regression_of_income(method: str) -> None:
    found = release(method).fit(FORMULA, family="binomial", recode={"occupation": GROUPS})
    expected = EXPECTED[method]
    se = np.array(expected["bse"])
    assert list(found.names[3:]) == [f"C(occupation)[T.{level}]" for level in EXPECTED["truth"]["names"][3:]]
    np.testing.assert_array_less(np.abs(found.params.to_numpy() - expected["params"]), TOLERANCE * se)
    np.testing.assert_array_less(np.abs(found.bse.to_numpy() - se), TOLERANCE * se)
    np.testing.assert_array_less(np.abs(found.bse_table.to_numpy() - expected["bse_table"]), TOLERANCE * se)
    np.testing.assert_allclose(found.information, expected["information"], rtol=TOLERANCE)
    assert np.abs((found.params.to_numpy() - EXPECTED["truth"]["params"]) / found.bse_table).max() < 4


@pytest.mark.parametrize("method", METHODS)
def test_whether_sex_and_occupation_go_together(method: str) -> None:
    expected = EXPECTED[method]["independence"]
    for target, strength in (("population", expected["V"]), ("table", expected["V_table"])):
        found = release(method).test(
            "sex",
            "occupation",
            recode={"occupation": GROUPS},
            target=target,  # type: ignore[arg-type]
        )
        assert found.cramers_v == pytest.approx(strength, rel=1e-8)
        assert found.df == expected["df"]
    if found.test == WALD:
        assert found.statistic == pytest.approx(expected["statistic"], rel=1e-8)
    else:  # Pearson's statistic on the published table tests the same hypothesis with another statistic
        assert found.pvalue < 1e-15


@pytest.mark.parametrize("method", METHODS)
def test_the_wald_statistic_of_every_method(method: str) -> None:
    from sfumato.analysis.cells import read

    grid = read(release(method).subject, ("sex", "occupation"), recode={"occupation": GROUPS})
    codes = tuple(np.broadcast_to(grid.variables[n].codes, grid.weight.shape) for n in ("sex", "occupation"))
    table = TwoWayTable(grid, codes, (np.arange(2), np.arange(5)))
    statistic, df = table.wald()
    assert statistic == pytest.approx(EXPECTED[method]["independence"]["statistic"], rel=1e-8)
    assert df == 4


def test_the_true_table_gives_the_truth() -> None:
    """A model that reads no randomised column is the fit of the original rows, with its robust errors."""
    roles = sfumato.Roles(sensitive="race", rest="quasi")
    kept = sfumato.RandomizedResponse(scope="s", keep={"race": "0.9"})
    whole = sfumato.publish(datasets.adult(), roles=roles, method=kept, seed=1, null_as_value=True)
    found = whole.fit(FORMULA, family="binomial", recode={"occupation": GROUPS})
    truth = EXPECTED["truth"]
    np.testing.assert_allclose(found.params, truth["params"], rtol=1e-6)
    np.testing.assert_allclose(found.bse, truth["bse_population"], rtol=1e-6)
    np.testing.assert_array_equal(found.bse_table, 0)


def test_small_domain_against_the_rows() -> None:
    """The same fit row by row: a row weighs towards every true value as its sub-table's channel says.

    Shares nothing with the package but the published rows and the stated channel.
    """
    roles = sfumato.Roles(sensitive="occupation", rest="quasi")
    method = sfumato.SmallDomain(rho1="1/5", rho2="1/2", report="value")
    small = sfumato.publish(datasets.adult(), roles=roles, method=method, seed=1, null_as_value=True)
    rows = pq.read_table(small.path / "data.parquet").to_pydict()
    values = [v for (v,) in small.domains[0].values]
    group = {v: g for g, held in enumerate(GROUPS.values()) for v in held}
    tables, part = small.plan.law.tables, np.array(rows[small.opened.law.part])
    B = np.zeros((len(tables), len(values), len(values)))
    for i in range(len(tables)):
        held = tables.domain(i)
        channel = float(tables.p[i]) * np.eye(len(held)) + float(tables.q[i])
        B[i][np.ix_(held, held)] = np.linalg.inv(channel)
    place = {v: k for k, v in enumerate(values)}
    to_value = B[part, [place[v] for v in rows["occupation"]]]  # (rows, values): towards every true value
    towards = np.stack([to_value[:, [group[v] == g for v in values]].sum(axis=1) for g in range(5)], axis=1)
    n = len(part)
    x = np.zeros((n, 5, 7))  # of every row, were it of each group
    x[:, :, 0], x[:, :, 1] = 1, np.array(rows["age"], dtype=float)[:, None]
    x[:, :, 2] = (np.array(rows["sex"]) == "Male")[:, None]
    for g in range(1, 5):
        x[:, g, 2 + g] = 1
    y, beta = (np.array(rows["income"]) == ">50K").astype(float)[:, None], np.zeros(7)
    for _ in range(40):
        mu = 1 / (1 + np.exp(-(x @ beta)))
        U = np.einsum("ng,ngp->p", towards * (y - mu), x)
        A = np.einsum("ng,ngp,ngq->pq", towards * mu * (1 - mu), x, x, optimize=True)
        beta = beta + np.linalg.solve(A, U)
    h = (y - 1 / (1 + np.exp(-(x @ beta))))[:, :, None] * x
    w = np.einsum("ng,ngp->np", towards, h)
    inverse = np.linalg.inv(A)
    population = inverse @ (w.T @ w - np.outer(w.sum(0), w.sum(0)) / n) @ inverse
    own = inverse @ (w.T @ w - np.einsum("ng,ngp,ngq->pq", towards, h, h, optimize=True)) @ inverse
    found = small.fit(FORMULA, family="binomial", recode={"occupation": GROUPS})
    np.testing.assert_allclose(found.estimates, beta, rtol=1e-6)
    np.testing.assert_allclose(found.bse, np.sqrt(np.diag(population)), rtol=1e-6)
    np.testing.assert_allclose(found.bse_table, np.sqrt(np.diag(own)), rtol=1e-6)
    assert np.abs((found.estimates - EXPECTED["truth"]["params"]) / found.bse_table).max() < 4
