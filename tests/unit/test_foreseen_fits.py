"""Errors of coefficients before publishing: against the errors that releases of the same plan state."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from sfumato.choosing.foresee import foreseen_fit
from sfumato.engines import engine_named
from sfumato.errors import PlanError, UnsupportedQuery
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

METHODS = {
    "small-domain sets": lambda: sf.SmallDomain(rho1="1/7", rho2="1/3", report="set"),
    "uniform": lambda: sf.UniformPerturbation(rho1="1/5", rho2="1/2"),
    "small-domain": lambda: sf.SmallDomain(rho1="1/5", rho2="1/2"),
    "randomized-response": lambda: sf.RandomizedResponse(scope="s", keep={"occupation": "0.6"}),
    "splu": lambda: sf.Splu(gamma=3),
    "anatomy": lambda: sf.Anatomy(l=4),
}
GROUPS = {
    "occupation": {
        "Professional": ["Exec-managerial", "Prof-specialty"],
        "Office": ["Adm-clerical", "Sales", "Tech-support"],
        "Manual": ["Craft-repair", "Transport-moving", "Machine-op-inspct", "Handlers-cleaners", "Farming-fishing"],
        "other": ["Other-service", "Protective-serv", "Priv-house-serv", "Armed-Forces", None],
    }
}
ROLES = sf.Roles(sensitive="occupation", rest="quasi")
MODEL = "hours_per_week ~ age + sex + C(occupation)"


@cache
def adult() -> pa.Table:
    return sf.datasets.adult().select(["age", "sex", "hours_per_week", "income", "occupation"])


def foreseen(method: Any) -> dict[str, Any]:
    prepared = prepare(adult(), roles=ROLES, method=method, secret=Secret.from_seed(4), null_as_value=True)
    return foreseen_fit(prepared, engine_named(), MODEL, recode=GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_foreseen_errors_are_those_of_a_release(method: str) -> None:
    """A release states its errors from its own counts: they differ from the foreseen ones by their own noise."""
    expected = foreseen(METHODS[method]())["rows"]
    release = sf.publish(adult(), roles=ROLES, method=METHODS[method](), seed=4, null_as_value=True)
    stated = release.fit(MODEL, recode=GROUPS)
    other, roles = sf.RandomizedResponse(scope="s", keep={"income": "0.9"}), sf.Roles(sensitive="income", rest="quasi")
    truth = sf.publish(adult(), roles=roles, method=other, seed=1).fit(MODEL, recode=GROUPS)  # reads no income
    if method == "splu":  # slots are drawn with the plan: what is foreseen is the mean given those
        gap = np.array([r["estimate"] for r in expected]) - truth.estimates
        assert np.abs(gap / [r["se_table"] for r in expected]).max() < 4
    else:
        np.testing.assert_allclose([r["estimate"] for r in expected], truth.estimates, rtol=1e-6)
    for key, found in (("se", stated.bse), ("se_table", stated.bse_table)):
        np.testing.assert_allclose([r[key] for r in expected], found, rtol=0.12)
    assert np.abs((stated.estimates - truth.estimates) / [r["se_table"] for r in expected]).max() < 4


def test_what_is_not_foreseen_is_refused() -> None:
    with pytest.raises((PlanError, UnsupportedQuery)):
        foreseen(sf.DistributionDraw())


def test_plan_shows_the_errors_to_expect(tmp_path: Path) -> None:
    pq.write_table(adult(), tmp_path / "adult.parquet")
    (tmp_path / "groups.json").write_text(json.dumps(GROUPS), encoding="utf-8")
    options = "plan adult.parquet --sa occupation --rest quasi --null-as-value --method uniform --rho1 1/5 --rho2 1/2"
    asked = [*options.split(), "--fit", MODEL, "--recode", "groups.json"]
    done = sfumato(*asked, "--json", cwd=tmp_path)
    document = json.loads(done.out)["fit"]
    assert {"term", "estimate", "se", "se_table"} <= set(document["rows"][0])
    assert document == foreseen(METHODS["uniform"]())
    pq.write_table(sf.datasets.adult(), tmp_path / "adult.parquet")  # too many different rows to be kept as cells
    text = sfumato(*asked, cwd=tmp_path).out
    assert "C(occupation)[T.Manual]" in text
    refused = sfumato(*options.split(), "--fit", "hours_per_week ~ agee", cwd=tmp_path)
    assert (refused.code, refused.out) == (2, "")
