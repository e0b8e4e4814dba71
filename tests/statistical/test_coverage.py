"""Bias and coverage of the answers on Adult, for conditions that go with the sensitive column.

Each question is asked of FEW or MANY independent releases. False alarms: per question and method, ALPHA for coverage
(exact binomial test), for bias (Student's test on the mean) and for the stated error (chi-square): 3 methods x 10
questions x 3 tests = 9e-8, twice. The pooled band, of MANY, is the one the interval rule was measured to keep; with
1000 answers its standard error is 0.7 points.
Smallest fault caught: intervals 30 % too narrow (coverage .83) or 30 % too wide (.989) leave the pooled band.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pytest
from scipy.stats import binomtest, chi2, t

import sfumato as sf
from constants import ALPHA
from sfumato.choosing.measure import trial
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

FEW, MANY = 8, 100  # releases: in `make test`, and besides in `make test-all`
BAND = (0.93, 0.975)
CONDITIONS = (
    "occupation = 'Sales' AND sex = 'Female'",
    "occupation = 'Exec-managerial' AND income = '>50K'",
    "occupation = 'Craft-repair' AND sex = 'Male' AND education_num < 10",
    "occupation = 'Prof-specialty' AND education_num >= 13",
    "occupation = 'Adm-clerical' AND sex = 'Female' AND age < 30",
    "occupation IN ('Sales', 'Tech-support') AND income = '>50K'",
    "occupation = 'Armed-Forces' AND age BETWEEN 40 AND 45",
    "occupation IS NULL AND age < 20",
    "occupation = 'Other-service' AND race = 'Black'",
    "occupation <> 'Machine-op-inspct' AND workclass = 'Private' AND age > 60",
)
METHODS = {
    "subset-response": sf.SubsetResponse(rho1="1/5", rho2="1/3"),
    "small-domain sets": sf.SmallDomain(rho1="1/7", rho2="1/4", report="set"),
    "anatomy": sf.Anatomy(l=4),
}
COLUMNS = ["occupation", "sex", "income", "education_num", "age", "race", "workclass"]
QUESTION = (
    "SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE {c}) AS n{i}" for i, c in enumerate(CONDITIONS)) + " FROM release"
)


@pytest.mark.parametrize("releases", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", METHODS)
def test_bias_and_coverage(name: str, releases: int) -> None:
    source = sf.datasets.adult().select(COLUMNS)
    with duckdb.connect() as con:
        con.register("release", source)
        truth = np.array(con.sql(QUESTION).fetchall()[0], dtype=float)
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    inside, estimates, errors = [], [], []
    first = prepare(source, roles=roles, method=METHODS[name], secret=Secret.from_seed(0), null_as_value=True)
    for r in range(releases):  # as publish does, with the counts of the first
        secret = Secret.from_seed(r)
        planned = first.method.plan(METHODS[name], first.profile, secret.stream("plan"))
        with trial(replace(first, planned=planned), secret) as release:
            (row,) = release.sql(QUESTION).rows()
        columns = {
            end: np.array([row[f"n{i}{end}"] for i in range(len(truth))]) for end in ("", "_se", "_low", "_high")
        }
        inside.append((columns["_low"] <= truth) & (truth <= columns["_high"]))
        estimates.append(columns[""])
        errors.append(columns["_se"])
        if name == "anatomy":
            bounds = [(row[f"n{i}_min"], row[f"n{i}_max"]) for i in range(len(truth))]
            assert all(low <= t <= high for t, (low, high) in zip(truth, bounds, strict=True))
    hits = np.sum(inside, axis=0)
    for i, hit in enumerate(hits):
        assert binomtest(int(hit), releases, 0.95).pvalue > ALPHA, (CONDITIONS[i], hit / releases)
    if releases == MANY:
        assert BAND[0] <= hits.sum() / (releases * len(truth)) <= BAND[1]
    spread = np.std(estimates, axis=0, ddof=1)
    score = (np.mean(estimates, axis=0) - truth) / (spread / np.sqrt(releases))
    assert np.abs(score).max() < t.isf(ALPHA / 2, releases - 1), score
    # The stated variance is that of the estimates: their ratio is chi-square by its degrees of freedom.
    ratio = spread**2 / np.mean(np.square(errors), axis=0)
    freedom = releases - 1
    assert (ratio > chi2.ppf(ALPHA / 2, freedom) / freedom).all(), ratio
    assert (ratio < chi2.isf(ALPHA / 2, freedom) / freedom).all(), ratio
