"""Plans of splu as the custodian sees them: thresholds, curves, decoy sets."""

from __future__ import annotations

import json
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.laws import decoy_estimate
from sfumato.laws.decoy_channel import rebuild_channel
from sfumato.laws.decoys import Decoys
from sfumato.methods.splu import METHOD as splu
from sfumato.methods.splu import parse_gamma
from sfumato.model.public import Asked, Observed
from workers import COUNTS, ROLES, TWO, Z, workers


def test_plan_reports_thresholds_amplification_and_error():
    from sfumato.publish import prepare
    from sfumato.publishing.randomness import Secret

    report = prepare(workers(), roles=ROLES, method=sf.Splu(gamma=5), secret=Secret.from_seed(1)).report()
    assert report["groups"] == 1200
    assert report["amplification"]["baker"] == pytest.approx(5 * 4900 / 500)
    assert any("baker" in warning for warning in report["warnings"])
    error = report["expected_error"]
    assert error["total"] == pytest.approx(np.sqrt(COUNTS * 0.8))
    assert error["among_1_percent"][-1] < error["among_10_percent"][-1]
    both = prepare(workers(), roles=TWO, method=sf.Splu(gamma=3), secret=Secret.from_seed(1)).report()
    assert set(both["groups"]) == {"job", "town"}
    assert len(both["expected_error"]["values"]) == 13
    json.dumps([report, both])


def test_largest_buckets_for_comparison():
    release = sf.publish(workers(600), roles=ROLES, method=sf.Splu(gamma=3, grouping="largest"), seed=2)
    assert release.manifest.law["grouping"] == "largest-buckets"
    assert release.sql("SELECT COUNT(*) AS n FROM release WHERE job = 'nurse' AND sex = 'f'").rows()[0]["n"] is not None


def test_gamma_as_text_and_mapping():
    assert parse_gamma("5", ("a", "b")) == (5, 5)
    assert parse_gamma("b=3, a=4", ("a", "b")) == (4, 3)
    assert parse_gamma({"a": 2, "b": 3}, ("b", "a")) == (3, 2)


def test_plan_report_draws_the_guarantee(tmp_path: Path):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from commands import sfumato

    pq.write_table(workers(), tmp_path / "t.parquet")
    done = sfumato(
        "plan", tmp_path / "t.parquet", "--sa", "job", "--rest", "quasi", "--method", "splu", "--gamma", "4",
        "--report", tmp_path / "plan.html",
    )  # fmt: skip
    assert done.code == 0, done.text
    page = (tmp_path / "plan.html").read_text()
    assert page.count("<svg") == 2
    assert "T_f" in page
    assert "http-equiv" not in page
    assert "<script" not in page


def test_curves_hold_the_thresholds():
    plan = splu.plan_type(
        law=Decoys(gamma={"a": 10}, grouping="random-margins", grouping_version=1),
        epsilon=F(3, 10),
        alpha=3,
        t_e=F(1, 20),
    )
    hidden, kept = splu.curves(plan)
    assert min(y for x, y in hidden.series["gamma 10"] if x <= 3) == pytest.approx(0.612580, abs=5e-7)
    assert dict(kept.series["gamma 10"])[0.05] == 41


def test_variance_of_a_single_record_in_closed_form():
    """The score interval's two variances: the closed form for one value against M w^2 - h^2 written out.

    The closed form leaves out the spread of the other values' weights, so it is a little below: 2 % with 8 values.
    """
    channel = rebuild_channel(COUNTS, 4, seed=1)
    asked = Asked(
        units=(0,), classes=(np.arange(8, dtype=np.int32),), coefficients=(), measure=np.zeros(0, np.intp),
        products=np.zeros((1, 1), np.intp), pairs=np.zeros((0, 2), np.intp), binary=True, z=Z,
    )  # fmt: skip
    nothing = np.zeros(0, np.intp)
    observed = Observed(
        stratum=nothing, part=nothing, value=nothing, moments=np.zeros((0, 1)), key=nothing, pattern=nothing, keys=0
    )
    work = decoy_estimate._Answering((channel,), 6000, observed, asked)
    h = np.eye(8)
    own, other, every = work._spread_each(np.arange(8))
    exact_own, exact_other, exact_every = work._spread_any(h, channel.matrix.weights(h))
    assert (own <= exact_own).all()
    assert own == pytest.approx(exact_own, rel=0.02)
    assert other == pytest.approx(exact_other, rel=0.02)
    assert every == pytest.approx(exact_every, rel=0.02)
    M = channel.matrix.forward(h)
    assert exact_own == pytest.approx(np.diag(M @ np.linalg.inv(M) ** 2) - 1)


def test_plan_shows_decoy_sets_only_in_full() -> None:
    from sfumato import Roles, Splu
    from sfumato.publish import prepare
    from sfumato.publishing.randomness import Secret
    from tables import people

    roles = Roles(sensitive="disease", quasi=["age"], rest="drop")
    prepared = prepare(people(), roles=roles, method=Splu(gamma=3), secret=Secret.from_seed(1))
    assert "decoy_sets" not in prepared.report()
    sets = prepared.report(full=True)["decoy_sets"]
    assert all(len(set(s["values"])) == 3 for s in sets)
    assert sum(s["groups"] for s in sets) == people().num_rows // 3
    assert [s["groups"] for s in sets] == sorted((s["groups"] for s in sets), reverse=True)
