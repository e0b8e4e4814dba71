"""What a hostile reader recomputes from a release, for every method: what is said to be held is held."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from fractions import Fraction
from fractions import Fraction as F
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import METHODS, sfumato
from sfumato.choosing.measure import laplace, reached
from sfumato.choosing.setting import Setting, make_setting
from sfumato.errors import PlanError
from sfumato.methods import REGISTRY
from sfumato.model.ratios import stated_share
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.reports.plan_text import render
from tables import DISEASES, ROLES, people

NOBODY = "zoster"  # a declared value that no record has


def published(folder: Path, name: str, table: pa.Table, *options: object) -> dict[str, Any]:
    """release.json of a release of the table by the method as its example asks for it."""
    source = folder / "table.parquet"
    pq.write_table(table, source)
    done = sfumato("publish", source, folder / name, *ROLES, "--method", name, *METHODS[name], "--seed", 1, *options)
    assert done.code == 0, done.text
    manifest: dict[str, Any] = json.loads((folder / name / "release.json").read_text(encoding="utf-8"))
    return manifest


def held(manifest: dict[str, Any]) -> set[str]:
    return {r["reader"] for r in manifest["guarantee"]["readers"] if r["held"]}


@pytest.mark.parametrize("name", list(REGISTRY))
def test_a_release_that_rules_a_value_out_holds_no_reader_with_any_prior(name: str, tmp_path: Path) -> None:
    """A prior of rho1 on a value, and all the rest on one that the release shows not to occur, ends at 1.

    Whether a release rules the value out is asked of the release itself: its count is 0 without any error.
    """
    (tmp_path / "domain.txt").write_text("\n".join([*DISEASES, NOBODY]), encoding="utf-8")
    declared: tuple[object, ...] = ("--domain", f"disease={tmp_path / 'domain.txt'}")
    if name == "l-diversity":
        declared = ()  # the sensitive column is published as it is, and has no domain to declare
    if name == "small-domain":
        declared = (*declared, "--min-size", 1246)  # one sub-table: the plan that is nearest to a channel
    manifest = published(tmp_path, name, people(), *declared)
    question = f"SELECT COUNT(*) AS n FROM release WHERE disease = '{NOBODY if declared else 'flu'}'"
    done = sfumato("query", tmp_path / name, question, "--format", "json")
    assert done.code == 0, done.text
    (row,) = json.loads(done.out)["rows"]
    if row["n_low"] == row["n_high"]:
        assert held(manifest).isdisjoint({"value", "set", "corruption", "person"})


def visits(rows: int) -> pa.Table:
    """The people again, `rows` rows each with the same value."""
    whole = people().slice(0, 500)
    table = pa.concat_tables([whole] * rows)
    return table.append_column("who", pa.array(list(range(whole.num_rows)) * rows))


@cache
def visited(rows: int) -> Setting:
    """What `compare` knows of them."""
    roles = sf.Roles(sensitive="disease", quasi=["sex"], rest="drop", person="who", max_rows_per_person=rows)
    return make_setting(visits(rows), roles=roles, bound="1/3", rho1="1/5", conditions=3)


@pytest.mark.parametrize("name", list(REGISTRY))
def test_methods_that_are_compared_are_held_for_a_person(name: str) -> None:
    """What `compare` and `recommend` say of a person with several rows is what the release would say, for each method.

    The amplification of one row is read off the plan; a person's rows multiply it.
    """
    rows, setting = 3, visited(3)
    for candidate in REGISTRY[name].at_bound(setting.facts, setting.tau, setting.rho1):
        try:
            prepared = setting.prepare(candidate, Secret.from_seed(1))
        except PlanError:  # one row only, as tests/unit/test_people.py asks of every method
            continue
        person = reached(prepared, setting)["readers"][-1]
        assert (person["reader"], person["rows"]) == ("person", rows)
        assert "assuming" not in person["why"]
        gamma = amplification(prepared.planned.public)
        if gamma is not None:
            odds = F(1, 4) * gamma**rows
            assert person["posterior"] == pytest.approx(float(odds / (1 + odds)), abs=2e-6)
            assert person["held"] == (odds / (1 + odds) <= F(1, 3))
        if candidate.parameters.get("rho2") is not None:
            assert person["held"] or gamma is None, "a pair of bounds that was asked for holds the person"


def amplification(plan: Any) -> Fraction | None:
    """The largest ratio of two chances of one output of one row; None where parts are published."""
    match type(plan).__name__:
        case "UniformPlan" | "SubsetResponsePlan":
            return F(plan.gamma)
        case "RandomizedResponsePlan":
            at = plan.columns.index("disease")
            keep = F(repr(plan.keep[at]))
            return F(keep * (plan.sizes[at] - 1) / (1 - keep))
        case "DistributionDrawPlan":
            return F(1)
    return None


def test_noisy_answers_are_noisier_for_people_with_more_rows() -> None:
    """The laplace row of `compare`: every row of a person moves the counts, so the noise grows with them."""
    found = [laplace(visited(rows), Secret.from_seed(1)) for rows in (1, 3)]
    one, three = (entry["expected_error"]["0.001"] for entry in found)
    assert three == pytest.approx(one)  # three times the noise on three times the counts
    assert found[1]["readers"][-1]["rows"] == 3


COUNTED = range(13, 20)  # counts of a value above rho1 = 1/5 of 60 rows that no statement may tell apart


def small(count: int) -> pa.Table:
    """60 rows, `count` of which have the same disease."""
    others = [f"d{i % 7}" for i in range(60 - count)]
    return pa.table({"disease": ["cold"] * count + others, "sex": ["f", "m"] * 30})


@pytest.mark.parametrize("name", list(REGISTRY))
def test_what_is_stated_of_a_small_table_tells_no_count(name: str) -> None:
    """The reader runs the method on every table that is possible, and looks which of them make the stated guarantee."""
    roles = sf.Roles(sensitive="disease", quasi=["sex"])
    spec = REGISTRY[name].spec(**REGISTRY[name].example.spec)
    said = []
    for count in COUNTED:
        with contextlib.suppress(PlanError):
            found = prepare(small(count), roles=roles, method=spec, secret=Secret.from_seed(1))
            said.append(found.guarantee.model_dump_json())
    assert said
    assert len(set(said)) <= 2, "steps of ten rows or more"


@pytest.mark.parametrize("rows", [1, 7, 19, 20, 60, 99, 100, 101, 500, 999, 1000, 12345])
def test_a_stated_share_is_that_of_ten_counts(rows: int) -> None:
    made: dict[float, int] = {}
    for count in range(1, rows + 1):
        share = stated_share(count, rows)
        assert F(count, rows) <= F(str(share)) <= 1
        made[share] = made.get(share, 0) + 1
    assert min(made.values()) >= min(10, rows)
    assert stated_share(0, rows) == 0


def test_a_share_of_all_rows_is_not_more_than_all() -> None:
    """A sensitive column with one value; the prior of whoever names it is 1, not 1.01."""
    table = pa.table({"disease": ["cold"] * 60, "sex": ["f", "m"] * 30})
    method = sf.RandomizedResponse(keep={"sex": "0.7"}, scope="qi")
    found = prepare(
        table, roles=sf.Roles(sensitive="disease", quasi=["sex"]), method=method, secret=Secret.from_seed(1)
    )
    assert found.planned.public.baseline == {"disease": 1.0}


@pytest.mark.parametrize("name", list(REGISTRY))
def test_a_plan_names_the_prior_that_cells_are_compared_with(name: str) -> None:
    table = small(13)
    roles, spec = sf.Roles(sensitive="disease", quasi=["sex"]), REGISTRY[name].spec(**REGISTRY[name].example.spec)
    report = prepare(table, roles=roles, method=spec, secret=Secret.from_seed(1)).report()
    found = report["quasi_identifiers"]
    assert (found["rho1"] is None) == (found["sharpened"] is None)
    if found["rho1"] is None:
        return
    limit = F(found["rho1"])
    both = Counter(zip(table["sex"].to_pylist(), table["disease"].to_pylist(), strict=True))
    size, share = Counter(table["sex"].to_pylist()), Counter(table["disease"].to_pylist())
    sharp = {sex for (sex, disease), n in both.items() if F(share[disease], 60) <= limit < F(n, size[sex])}
    assert found["sharpened"] == pytest.approx(sum(size[sex] for sex in sharp) / 60)
    assert f"a value of at most {found['rho1']} of the table" in render(report)
