"""Sentences that custodians decide by: nothing is called equal, covered or finite that is not."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from comparing import people, roles
from sfumato.choosing.compare import compare
from sfumato.choosing.recommend import recommend
from sfumato.errors import PlanError
from sfumato.methods import REGISTRY
from sfumato.model.public import READERS, Claim
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.reports.documents import opening, render_comparison, render_recommendation
from sfumato.reports.pages import comparison_html, public_document

ADULT = {"roles": sf.Roles(sensitive="occupation", quasi=("age", "sex", "education"), rest="drop")}


def reader(found: list[dict], name: str) -> dict:  # type: ignore[type-arg]
    return next(r for r in found if r["reader"] == name)


@pytest.mark.slow
def test_the_recommendation_holds_the_bound_that_it_names() -> None:
    """Adult at 1/4: the release that keeps occupation with 0.999 is none that holds 1/4."""
    table = sf.datasets.adult()
    found = recommend(table, **ADULT, bound="1/4", trust="conditional", null_as_value=True, conditions=5, seed=1)
    assert reader(found["readers"], "histogram")["posterior"] <= 1 / 4
    assert "warning" not in render_recommendation(found)
    only_risk = prepare(
        table,
        roles=ADULT["roles"],
        method=REGISTRY["randomized-response"].spec(risk="1/4"),
        secret=Secret.from_seed(1),
        null_as_value=True,
    )
    reached = only_risk.readers(Claim(rho1=Fraction(1, 7), rho2=Fraction(1, 4)))["readers"]
    assert reader(reached, "histogram")["posterior"] > 0.9
    assert reader(reached, "histogram")["held"] is False


def test_every_considered_method_holds_the_bound() -> None:
    found = recommend(people(2500), roles=roles(), bound="3/10", trust="conditional", conditions=10, seed=1)
    assert {r["method"] for r in found["considered"]} >= {"uniform", "small-domain", "randomized-response", "anatomy"}
    for result in found["considered"]:
        assert reader(result["readers"], "histogram")["posterior"] <= 0.3, result["method"]


def test_a_useless_release_is_called_so() -> None:
    """Few rows, a strong bound: noise of the size of the counts, and a baseline without any link is as good."""
    table, wide = people(400, values=20, decay=1.0), people(20_000, values=6)
    found = recommend(table, roles=roles(), bound="1/9", conditions=10, seed=1)
    assert any("useless" in line for line in found["warnings"])
    assert "warning" in render_recommendation(found)
    fine = recommend(wide, roles=roles(), bound="1/2", conditions=10, seed=1)
    assert not any("useless" in line for line in fine["warnings"])


def test_the_report_opens_with_who_is_equal() -> None:
    document = compare(
        people(1500), roles=roles(), bound="1/3", releases=1, conditions=6, seed=4, methods=["uniform", "l-diversity"]
    )
    first = opening(document)
    assert "uniform" in first.split("Listed")[0]
    assert "l-diversity, distinct" in first.split("Listed")[1]
    assert first in comparison_html(document).replace("&#39;", "'")
    assert first in render_comparison(document)
    shown = json.dumps(public_document(document))
    exact = reader(document["methods"][0]["readers"], "histogram")["posterior"]
    assert str(exact) not in shown  # a true share stays in the house


def test_a_column_that_is_kept_makes_the_record_s_loss_infinite() -> None:
    method = REGISTRY["randomized-response"]
    found = prepare(
        people(500),
        roles=roles(),
        method=method.spec(keep={"disease": 1, "sex": "0.7"}, scope="qi"),
        secret=Secret.from_seed(1),
    )
    stated = method.guarantee(found.planned.public)
    assert "nothing bounds the loss: disease" in stated.statement
    assert stated.parameters["epsilon_total"] == "infinite"
    left_out = prepare(
        people(500), roles=roles(), method=method.spec(keep={"sex": "0.7"}, scope="qi"), secret=Secret.from_seed(1)
    )
    assert "nothing bounds the loss: disease" in method.guarantee(left_out.planned.public).statement
    for plan in (found, left_out):
        assert all(r["held"] is False and r["posterior"] == 1 for r in plan.readers(plan.claim())["readers"])
    both = prepare(people(500), roles=roles(), method=method.spec(keep={"disease": "0.5"}), secret=Secret.from_seed(1))
    assert "nothing bounds" not in method.guarantee(both.planned.public).statement


def test_small_domain_is_not_said_to_cover_sets_or_frequent_values() -> None:
    counts = np.array([700, *[60] * 20])
    table = pa.table({"disease": np.repeat([f"d{i:02d}" for i in range(21)], counts)})
    spec = REGISTRY["small-domain"].spec(rho1="1/14", rho2="1/6", min_size=100)
    found = prepare(table, roles=sf.Roles(sensitive="disease"), method=spec, secret=Secret.from_seed(1))
    assert len(found.planned.law.domains) > 1
    report = found.report()
    assert reader(report["readers"], "set")["held"] is False
    assert reader(report["readers"], "histogram")["held"] is True
    assert report["unprotected"]["values"] == ["d00"]
    assert report["unprotected"]["posterior"] > 1 / 6  # it holds more of a sub-table than that before anything is shown
    assert report["guarantee"]["statement"].startswith("For sensitive values that hold at most 1/14 of the table")


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """55 % of the rows hold one value."""
    path = tmp_path_factory.mktemp("skewed") / "t.parquet"
    pq.write_table(pa.table({"job": ["cook"] * 550 + [f"j{i % 9}" for i in range(450)], "sex": ["f", "m"] * 500}), path)
    return path


def test_a_release_that_covers_less_than_half_is_refused(skewed: Path, tmp_path: Path) -> None:
    command = ["publish", skewed, tmp_path / "out", "--sa", "job", "--qi", "sex", "--rho1", "1/5", "--rho2", "1/2"]
    refused = sfumato(*command)
    assert refused.code == 3
    assert "55.0% of the rows" in refused.err
    assert "--accept-unprotected" in refused.err
    assert not (tmp_path / "out").exists()
    done = sfumato(*command, "--accept-unprotected")
    assert done.code == 0
    assert "not covered, because too frequent: cook (55% of the rows" in done.out
    assert "cook" in sfumato("inspect", tmp_path / "out").out
    stated = json.loads((tmp_path / "out" / "release.json").read_text())["guarantee"]
    assert stated["unprotected"] == {"values": ["cook"], "share": 0.55}
    assert [r["reader"] for r in stated["readers"]] == list(READERS)
    assert "readers recomputed" in sfumato("verify", tmp_path / "out").out


def test_a_share_leaves_rounded_up(tmp_path: Path) -> None:
    table = pa.table({"job": ["cook"] * 301 + [f"j{i % 9}" for i in range(700)]})
    method = sf.UniformPerturbation(rho1="1/5", rho2="1/2")
    release = sf.publish(table, tmp_path / "out", roles=sf.Roles(sensitive="job"), method=method)
    assert release.manifest.guarantee.unprotected.share == 0.31  # type: ignore[union-attr]


def test_forged_readers_are_refused(skewed: Path, tmp_path: Path) -> None:
    command = ["publish", skewed, tmp_path / "out", "--sa", "job", "--qi", "sex", "--method", "anatomy", "--l", "2"]
    assert sfumato(*command, "--suppress").code == 0
    path = tmp_path / "out" / "release.json"
    document = json.loads(path.read_text())
    honest = document["guarantee"]["readers"]
    for forged in (
        [r | {"held": True} for r in honest],
        [r | {"posterior": 0.01} for r in honest],
        honest[:2],
    ):
        document["guarantee"]["readers"] = forged
        path.write_text(json.dumps(document))
        done = sfumato("verify", tmp_path / "out")
        assert done.code == 4
        assert "readers" in done.err
    del document["guarantee"]["readers"]  # as older releases are
    path.write_text(json.dumps(document))
    assert sfumato("verify", tmp_path / "out").code == 0


def test_a_person_with_ten_rows_is_another_reader() -> None:
    """rho2 = 1/2 for a row; ten rows of one person with one value multiply the odds."""
    found = prepare(
        people(500),
        roles=roles(),
        method=sf.UniformPerturbation(rho1="1/5", rho2="1/2"),
        secret=Secret.from_seed(1),
    )
    claim = Claim(rho1=Fraction(1, 5), rho2=Fraction(1, 2), rows_per_person=10)
    person = reader(found.readers(claim)["readers"], "person")
    assert person["rows"] == 10
    assert person["held"] is False
    assert person["posterior"] > 0.99


def test_the_plan_says_what_quasi_identifiers_give_away() -> None:
    table = pa.table({"job": [*"aabbccddee"] * 4, "zip": [*range(30), *[99] * 3, *[98] * 7]})
    found = prepare(
        table,
        roles=sf.Roles(sensitive="job", quasi=("zip",)),
        method=sf.UniformPerturbation(rho1="1/5", rho2="1/2"),
        secret=Secret.from_seed(1),
    )
    cells = found.report()["quasi_identifiers"]
    assert cells == {"cells": 32, "unique_rows": 30, "rows_below_5": 33, "rho1": "1/5", "sharpened": 1.0}
    assert reader(found.report()["readers"], "linking")["posterior"] == 1


def test_publish_in_python_refuses_too(skewed: Path) -> None:
    with pytest.raises(PlanError, match="55"):
        sf.publish(
            skewed, roles=sf.Roles(sensitive="job", rest="quasi"), method=sf.UniformPerturbation(rho1="1/5", rho2="1/2")
        )
