"""What a hostile reader recomputes from a release, for every method: what is said to be held is held."""

from __future__ import annotations

import contextlib
from collections import Counter
from fractions import Fraction
from fractions import Fraction as F
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.choosing.measure import laplace, reached
from sfumato.choosing.setting import Setting, make_setting
from sfumato.errors import PlanError
from sfumato.methods import REGISTRY
from sfumato.methods.shared.readers import LIST_ASIDE
from sfumato.model.names import stated_share
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.reports.documents import render_plan
from tables import DISEASES, people

NOBODY = "zoster"  # a declared value that no record has


@pytest.mark.parametrize("name", list(REGISTRY))
def test_a_release_that_rules_a_value_out_holds_no_reader_with_any_prior(name: str) -> None:
    """A prior of rho1 on a value, and all the rest on one that the release shows not to occur, ends at 1.

    Whether a release rules the value out is asked of the release itself: its count is 0 without any error.
    """
    table = people().slice(0, 400)  # one sub-table of small-domain: nearly a channel
    release = sf.publish(
        table,
        roles=sf.Roles(sensitive="disease", quasi=["sex"], rest="drop"),
        method=REGISTRY[name].spec(**REGISTRY[name].example.spec),
        domains={} if name == "l-diversity" else {"disease": [*DISEASES, NOBODY]},  # l-diversity publishes the column
        seed=1,
    )
    value = "flu" if name == "l-diversity" else NOBODY
    (row,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE disease = '{value}'").rows()
    if row["n_low"] == row["n_high"]:
        held = {r.reader for r in release.manifest.guarantee.readers or () if r.held}
        assert held.isdisjoint({"value", "set", "corruption", "person"})


@pytest.mark.parametrize("name", [n for n in REGISTRY if n != "l-diversity"])  # which publishes the column
def test_the_list_of_uncovered_values_is_never_called_hidden(name: str) -> None:
    """Two tables that differ in one record may state two lists: whoever knows the others then knows the last one."""
    table = people().slice(0, 399).select(["sex", "disease"])
    others = table["disease"].to_pylist()
    most = max(set(others), key=others.count)
    rest = [value for value in others if value != most]
    spec = REGISTRY[name].spec(**REGISTRY[name].example.spec)
    lists = []
    for last in (most, rest[0]):  # 80 of 400 are at 1/5, and 81 above it
        values = pa.array([most] * 80 + rest[: 400 - 81] + [last])
        made = pa.table({"sex": ["f", "m"] * (len(values) // 2), "disease": values})
        release = sf.publish(
            made,
            roles=sf.Roles(sensitive="disease", quasi=["sex"]),
            method=spec,
            domains={"disease": DISEASES},
            accept_unprotected=True,
            seed=1,
        )
        stated = release.manifest.guarantee
        lists.append(stated.unprotected)
        (reader,) = [r for r in stated.readers or () if r.reader == "corruption"]
        assert not reader.held or LIST_ASIDE in reader.why
    if spec.method in {"subset-response", "uniform"}:
        assert lists[0] != lists[1]  # so that the words are needed


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
            at = plan.law.columns.index("disease")
            keep = F(repr(plan.law.keep[at]))
            return F(keep * (plan.law.sizes[at] - 1) / (1 - keep))
        case "DistributionDrawPlan":
            return F(1)
    return None


def test_noisy_answers_are_noisier_for_people_with_more_rows() -> None:
    """The laplace row of `compare`: every row of a person moves the counts, so the noise grows with them."""
    found = [laplace(visited(rows), Secret.from_seed(1)) for rows in (1, 3)]
    one, three = (entry["expected_error"]["0.001"] for entry in found)
    assert three == pytest.approx(one)  # three times the noise on three times the counts
    assert found[1]["readers"][-1]["rows"] == 3


COUNTED = (14, 16, 19)  # counts of a value above rho1 = 1/5 of 60 rows that no statement may tell apart


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
    assert len(set(said)) == 1


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
    assert f"a value of at most {found['rho1']} of the table" in render_plan(report)


@pytest.mark.parametrize("name", list(REGISTRY))
def test_an_error_that_is_foreseen_to_be_nothing_is_nothing(name: str) -> None:
    """Where a plan says that counts among 10 % of the rows do not err, those of the release do not."""
    table = pa.table({"disease": [f"d{i // 15 % 8}" for i in range(600)], "age": [i // 10 for i in range(600)]})
    roles, spec = sf.Roles(sensitive="disease", quasi=["age"]), REGISTRY[name].spec(**REGISTRY[name].example.spec)
    if name == "target-distribution":
        spec = sf.TargetDistribution()
    found = prepare(table, roles=roles, method=spec, secret=Secret.from_seed(1))
    foreseen = found.report().get("expected_error") or {}
    if any(error != 0 for error in foreseen.get("among_10_percent", [None])):
        return
    release = sf.publish(table, roles=roles, method=spec, seed=1)
    answer = release.sql("SELECT disease, COUNT(*) AS n FROM release WHERE age < 6 GROUP BY disease")
    true = Counter(table["disease"].to_pylist()[:60])
    assert {row["disease"]: row["n"] for row in answer.rows()} == dict(true)
