"""l-diversity through the real pipeline: classes are diverse, estimates spread evenly, limits are certain."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import DataError, PlanError, ReleaseError, SpecError, VerificationError
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

ROLES = sf.Roles(sensitive="disease", quasi=["age", "zip", "sex"], insensitive=["visits"])
HIERARCHIES = {"age": "interval:5/20", "zip": "prefix:2/1", "sex": "suppress"}


def people(rows: int = 600, seed: int = 2) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(20, 60, rows),
            "zip": rng.choice(["1011", "1012", "1021", "2011", "2012"], rows),
            "sex": rng.choice(["f", "m"], rows),
            "disease": rng.choice(["cold", "flu", "gout", "rash"], rows, p=[0.3, 0.3, 0.2, 0.2]),
            "visits": rng.poisson(3, rows),
        }
    )


def make(**options) -> sf.Release:
    arguments = {"l": 3, "hierarchies": HIERARCHIES} | options
    return sf.publish(people(), roles=ROLES, method=sf.LDiversity(**arguments), seed=1)


def classes_of(release) -> dict[tuple, Counter]:
    rows = pq.read_table(release.path / "data.parquet").to_pylist()
    found: dict[tuple, Counter] = defaultdict(Counter)
    for row in rows:
        found[row["age"], row["zip"], row["sex"]][row["disease"]] += 1
    return found


@pytest.mark.parametrize("kind", ["frequency", "entropy", "distinct"])
@pytest.mark.parametrize("suppression", ["0", "1/10"])
def test_every_published_class_is_diverse(kind, suppression) -> None:
    release = make(kind=kind, suppression=suppression)
    for counts in classes_of(release).values():
        n, share = counts.total(), np.array(list(counts.values())) / counts.total()
        if kind == "frequency":
            assert 3 * max(counts.values()) <= n
        elif kind == "entropy":
            assert -(share * np.log(share)).sum() >= np.log(3) - 1e-9
        else:
            assert len(counts) >= 3
    assert release.manifest.rows >= 600 * (1 - Fraction(suppression))
    if suppression == "0":
        assert release.manifest.rows == 600


def loss(**options) -> float:
    method = sf.LDiversity(**({"l": 3, "hierarchies": HIERARCHIES} | options))
    return prepare(people(), roles=ROLES, method=method, secret=Secret.from_seed(1)).report()["information_loss"]


@pytest.mark.parametrize("kind", ["frequency", "entropy", "distinct"])
def test_leave_to_suppress_never_costs_more(kind) -> None:
    assert loss(kind=kind, suppression="1/10") <= loss(kind=kind)


def cells_of(release, row) -> list[tuple]:
    """Base values a published row may stand for."""
    options = []
    for level, domain in zip(release.plan.law.columns, release.domains, strict=True):
        label = str(row[level.column])
        options.append([v[0] for v, m in zip(domain.values, level.member, strict=True) if level.labels[m] == label])
    return list(itertools.product(*options))


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("age > 37 AND sex = 'f'", lambda r, c: c[0] > 37 and c[2] == "f"),
        ("age < 30 OR disease = 'flu'", lambda r, c: c[0] < 30 or r["disease"] == "flu"),
        ("zip LIKE '10%' AND visits > 2", lambda r, c: c[1].startswith("10") and r["visits"] > 2),
    ],
)
def test_estimates_and_limits_by_enumeration(where, holds) -> None:
    release = make()
    assert any(c.level for c in release.plan.law.columns)
    value = low = high = variance = 0.0
    for row in pq.read_table(release.path / "data.parquet").to_pylist():
        truth = [bool(holds(row, cell)) for cell in cells_of(release, row)]
        value += np.mean(truth)
        variance += np.mean(truth) * (1 - np.mean(truth))
        low += min(truth)
        high += max(truth)
    answer = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {where}")
    row = answer.rows()[0]
    assert row["n"] == pytest.approx(value)
    assert row["n_se"] == pytest.approx(np.sqrt(variance))
    assert (row["n_low"], row["n_high"]) == pytest.approx((low, high))
    if low < high:
        assert (row["n_min"], row["n_max"]) == pytest.approx((low, high))
        assert "evenly" in answer.caveats[0]
    else:
        assert answer.kind == "exact"
    con = sf.publish(people(), roles=ROLES, method=sf.LDiversity(l=1, hierarchies=HIERARCHIES), seed=1)
    true = con.sql(f"SELECT COUNT(*) AS n FROM release WHERE {where}").rows()[0]["n"]
    assert low <= true <= high


def test_l_one_changes_nothing_and_answers_exactly() -> None:
    release = make(l=1)
    assert all(c.level == 0 for c in release.plan.law.columns)
    truth = Counter(people()["age"].to_pylist())
    for row in release.sql("SELECT age, COUNT(*) AS n FROM release GROUP BY age").rows():
        assert row["n"] == pytest.approx(truth[row["age"]])
        assert row["n_se"] == pytest.approx(0)


def test_sums_of_generalised_numbers() -> None:
    """SUM(age) spreads evenly over the values of the interval; its limits are the ends."""
    release = make()
    value = low = high = 0.0
    for row in pq.read_table(release.path / "data.parquet").to_pylist():
        ages = sorted({cell[0] for cell in cells_of(release, row)})
        value, low, high = value + np.mean(ages), low + ages[0], high + ages[-1]
    row = release.sql("SELECT SUM(age) AS s FROM release").rows()[0]
    assert (row["s"], row["s_min"], row["s_max"]) == pytest.approx((value, low, high))


def test_bounds_of_a_share_hold_for_every_assignment() -> None:
    """Six rows, all ways to give them base values of their labels: the bounds are the extremes, not wider."""
    table = pa.table({"age": [1, 2, 3, 4, 1, 3], "disease": ["a", "b", "a", "b", "b", "a"]})
    roles = sf.Roles(sensitive="disease", quasi=["age"])
    release = sf.publish(table, roles=roles, method=sf.LDiversity(l=2, hierarchies={"age": "interval:2"}), seed=1)
    rows = pq.read_table(release.path / "data.parquet").to_pylist()
    (level,), (domain,) = release.plan.law.columns, release.domains
    assert level.level > 0
    ages = [
        [v[0] for v, m in zip(domain.values, level.member, strict=True) if level.labels[m] == r["age"]] for r in rows
    ]
    shares = []
    for world in itertools.product(*ages):
        chosen = [r["disease"] == "a" for r, age in zip(rows, world, strict=True) if age < 3]
        if chosen:
            shares.append(np.mean(chosen))
    answer = release.sql("SELECT AVG(CASE WHEN disease = 'a' THEN 1 ELSE 0 END) AS s FROM release WHERE age < 3")
    row = answer.rows()[0]
    assert (row["s_min"], row["s_max"]) == pytest.approx((min(shares), max(shares)), abs=1e-9)
    assert (row["s_low"], row["s_high"]) == pytest.approx((min(shares), max(shares)), abs=1e-9)


def test_hierarchy_files_in_arx_style(tmp_path) -> None:
    path = tmp_path / "zip.csv"
    path.write_text("1011;10;*\n1012;10;*\n1021;10;*\n2011;20;*\n2012;20;*\n")
    release = make(hierarchies=f"age=interval:5/20,zip={path},sex=suppress")
    assert {c.column: c.height for c in release.plan.law.columns} == {"age": 3, "zip": 2, "sex": 1}
    same = make(hierarchies={"age": "interval:5/20", "zip": path})
    assert [c.level for c in same.plan.law.columns] == [c.level for c in release.plan.law.columns]
    path.write_text("1011;10;*\n")
    with pytest.raises(SpecError, match="lacks 4 of the 5 values"):
        make(hierarchies={"zip": path})
    with pytest.raises(SpecError, match="cannot be read"):
        make(hierarchies={"zip": tmp_path / "none.csv"})


def test_missing_quasi_identifiers_are_a_class_of_their_own() -> None:
    table = people()
    zips = table["zip"].to_pylist()
    table = table.set_column(1, "zip", pa.array([None if i % 7 == 0 else z for i, z in enumerate(zips)]))
    with pytest.raises(DataError):
        sf.publish(table, roles=ROLES, method=sf.LDiversity(l=2))
    rows = [["1011", "10", "*"], ["1012", "10", "*"], ["1021", "10", "*"], ["2011", "20", "*"], ["2012", "20", "*"]]
    method = sf.LDiversity(l=2, hierarchies={"zip": rows, "age": "interval:20"})
    release = sf.publish(table, roles=ROLES, method=method, null_as_value=True, seed=1)
    missing = release.sql("SELECT COUNT(*) AS n FROM release WHERE zip IS NULL").rows()[0]
    assert missing["n_low"] <= sum(i % 7 == 0 for i in range(600)) <= missing["n_high"]


def test_unreachable_l_names_the_largest() -> None:
    with pytest.raises(PlanError, match="the largest l is") as refusal:
        make(l=4)
    assert 3 < refusal.value.limit < 4


def test_report_is_for_the_custodian() -> None:
    prepared = prepare(
        people(), roles=ROLES, method=sf.LDiversity(l=3, hierarchies=HIERARCHIES), secret=Secret.from_seed(1)
    )
    report = prepared.report()
    assert set(report["levels"]) == {"age", "zip", "sex"}
    assert 0 < report["information_loss"] <= 1
    assert report["suppressed_rows"] == 0
    assert report["expected_error"]["total"] == [0.0] * 4


@pytest.mark.parametrize(
    ("roles", "options", "what"),
    [
        (sf.Roles(sensitive=["disease", "sex"], quasi=["zip"], rest="drop"), {}, "one sensitive column"),
        (sf.Roles(sensitive="disease", rest="keep"), {"hierarchies": None}, "--qi"),
        (ROLES, {"hierarchies": {"visits": "suppress"}}, "not a quasi-identifier"),
        (ROLES, {"hierarchies": {"zip": "interval:5"}}, "intervals need numbers"),
        (ROLES, {"hierarchies": {"zip": "halve"}}, "must be interval"),
    ],
)
def test_bad_requests(roles, options, what) -> None:
    with pytest.raises(SpecError, match=what):
        sf.publish(people(), roles=roles, method=sf.LDiversity(l=2, **options))


@pytest.mark.parametrize("change", [{"member": [0, 1]}, {"labels": ["a", "a"]}, {"column": "sex"}])
def test_a_forged_release_is_refused(tmp_path, change) -> None:
    make().save(tmp_path / "forged")
    path = tmp_path / "forged" / "release.json"
    stated = json.loads(path.read_text())
    stated["law"]["columns"][0] |= change
    path.write_text(json.dumps(stated))
    with pytest.raises(ReleaseError):
        sf.open_release(tmp_path / "forged")


@pytest.mark.parametrize("kind", ["frequency", "entropy", "distinct"])
def test_verify_counts_the_classes_again(kind) -> None:
    opened = make(kind=kind).opened
    opened.method.verify(opened.plan, opened.published)
    with pytest.raises(VerificationError, match="4-diverse"):
        opened.method.verify(replace(opened.plan, l=Fraction(4)), opened.published)
