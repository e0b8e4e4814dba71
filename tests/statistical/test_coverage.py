"""Bias and coverage of the answers on Adult, for conditions that go with the sensitive column.

Each question is asked of RELEASES independent releases. False alarms: per question and method, ALPHA for coverage
(exact binomial test) and ALPHA for bias (normal test on the mean); 3 methods x 10 questions x 2 tests = 6e-8 in all.
The pooled band is the one the interval rule was measured to keep; with 1000 answers its standard error is 0.7 points.
Smallest fault caught: intervals 30 % too narrow (coverage .83) or 30 % too wide (.989) leave the pooled band.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pytest
from scipy.stats import binomtest, norm

import sfumato as sf
from constants import ALPHA
from sfumato.choosing.measure import trial
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

RELEASES = 100
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


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_bias_and_coverage(name: str) -> None:
    source = sf.datasets.adult().select(COLUMNS)
    with duckdb.connect() as con:
        con.register("release", source)
        truth = np.array(con.sql(QUESTION).fetchall()[0], dtype=float)
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    inside, estimates, errors = [], [], []
    first = prepare(source, roles=roles, method=METHODS[name], secret=Secret.from_seed(0), null_as_value=True)
    for r in range(RELEASES):  # as publish does, with the counts of the first
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
        assert binomtest(int(hit), RELEASES, 0.95).pvalue > ALPHA, (CONDITIONS[i], hit / RELEASES)
    assert BAND[0] <= hits.sum() / (RELEASES * len(truth)) <= BAND[1]
    spread = np.std(estimates, axis=0, ddof=1)
    z = (np.mean(estimates, axis=0) - truth) / (spread / np.sqrt(RELEASES))
    assert np.abs(z).max() < norm.isf(ALPHA / 2), z
    # The stated standard error is the spread of the estimates: chi-square with 99 degrees of freedom, 6 deviations.
    ratio = np.mean(np.square(errors), axis=0) / spread**2
    assert np.abs(np.log(ratio)).max() < 6 * np.sqrt(2 / (RELEASES - 1)), ratio
