"""What the custodian is told about target distributions: groups, fakes, audit, notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from salaries import ROLES, SALARIES, by_zip
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.reports.documents import render_plan


def test_the_report_shows_groups_fakes_audit_and_notes() -> None:
    prepared = prepare(SALARIES, roles=ROLES, method=by_zip(fakes="1/3"), secret=Secret.from_seed(1))
    report = prepared.report()
    assert [(g["key"], g["size"], g["fakes"]) for g in report["groups"]] == [
        ("911", 4, 0),
        ("912", 3, 1),
        ("913", 4, 1),
    ]
    assert report["groups"][1]["blocks"][0] == {"low": 30, "high": 30, "count": 1}
    assert report["audit"]["exact_multiset"] == 2
    assert set(report["expected_error"]) >= {"values", "total", "among_1_percent", "among_10_percent"}
    alone = prepare(
        SALARIES, roles=ROLES, method=by_zip(min_group=4, max_weight=16, target="zipf(2)"), secret=Secret.from_seed(1)
    ).report()
    assert any("root" in note for note in alone["notes"])


def test_a_group_that_admits_one_value_only_is_reported() -> None:
    table = pa.table({"g": [1] * 6 + [2] * 6, "x": [1] * 6 + [1, 2] * 3})
    method = sf.TargetDistribution(target="uniform", partition_by="g", fakes=0)
    roles = sf.Roles(sensitive="x", quasi=["g"])
    assert (
        prepare(table, roles=roles, method=method, secret=Secret.from_seed(1)).report()["audit"][
            "only_one_value_possible"
        ]
        == 1
    )


def test_publishing_tells_the_custodian_what_planning_noticed(tmp_path: Path) -> None:
    told: list[str] = []
    table = pa.table({"x": [1, 2, 3, 1], "y": [1, 2, 3, 4]})
    method = sf.TargetDistribution(target={"1": 1, "2": 1}, fakes=0)
    roles = sf.Roles(sensitive="x", quasi=["y"])
    sf.publish(table, tmp_path / "o", roles=roles, method=method, notify=told.append)
    assert any("no mass to 1 values" in note for note in told)
    assert any("fewer than 5 rows" in note for note in told)
    assert not any("no mass" in path.read_text(errors="ignore") for path in (tmp_path / "o").iterdir())


def test_the_work_limit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.methods.target_distribution.plan.WORK_LIMIT", 20_000)
    rng = np.random.default_rng(97)
    told: list[str] = []
    table = pa.table({"x": rng.integers(0, 40, 400), "y": np.arange(400)})
    method = sf.TargetDistribution(target="zipf(1)", fakes="0.2")
    sf.publish(table, tmp_path / "o", roles=sf.Roles(sensitive="x", quasi=["y"]), method=method, notify=told.append)
    assert any("instead of up to 80" in note for note in told)


def test_groups_that_tell_their_one_value_are_told_to_the_custodian(tmp_path: Path) -> None:
    told: list[str] = []
    table = pa.table({"g": [1] * 6 + [2] * 6, "x": [1] * 6 + [1, 2] * 3})
    method = sf.TargetDistribution(target="uniform", partition_by="g", fakes=0)
    sf.publish(table, tmp_path / "o", roles=sf.Roles(sensitive="x", quasi=["g"]), method=method, notify=told.append)
    assert any("1 groups hold one repeated value" in note for note in told)


def test_the_audit_lists_groups_and_renders() -> None:
    prepared = prepare(SALARIES, roles=ROLES, method=by_zip(), secret=Secret.from_seed(1))
    report = prepared.report()
    by_key = {g["key"]: g for g in report["audit"]["groups"]}
    assert by_key["911"]["target"]["from_prior"] == pytest.approx(0, abs=1e-12)
    assert by_key["913"]["target"]["largest"] >= 0.25
    shown = render_plan(report)
    assert "who knows the algorithm learns (3 small groups" in shown
    assert "30..60 x2" in shown


def test_small_groups_with_fakes_are_audited_by_trying_every_histogram() -> None:
    """912** with one fake shows each salary once: any one of them may be the fake, so a row stays uniform."""
    prepared = prepare(SALARIES, roles=ROLES, method=by_zip(fakes="1/3"), secret=Secret.from_seed(1))
    by_key = {g["key"]: g for g in prepared.report()["audit"]["groups"]}
    assert by_key["912"]["target"] == {"largest": 0.25, "from_prior": 0}
    assert by_key["913"]["target"]["from_prior"] > 0
