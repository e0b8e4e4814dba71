"""target-distribution end to end: the paper's salary table, files, refusals, and what a release holds."""

from __future__ import annotations

import json
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from forging import forged, verified
from salaries import ROLES, SALARIES, by_zip, publish
from sfumato.errors import DataError, QueryError, SpecError, UnsupportedQuery, VerificationError
from sfumato.methods.registry import build
from sfumato.methods.target_distribution import METHOD as target_distribution
from sfumato.publishing.custodian import READERS, read_hierarchy, read_target
from sfumato.release.verify import verify

DISEASES = ["flu", "flu", "cold", "pneu", "ulcer", "gastritis"]
TAXONOMY = [["flu", "cold", "pneu"], ["ulcer", "gastritis"]]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    return publish(tmp_path_factory.mktemp("salaries"), SALARIES, ROLES, by_zip())


def bounds(release: sf.Release, sql: str) -> tuple[float, float]:
    (row,) = json.loads(release.sql(sql).to_json())["rows"]
    return row["x_low"], row["x_high"]


@pytest.mark.parametrize(
    ("sql", "low", "high"),
    [
        ("SELECT AVG(salary) AS x FROM release WHERE sex = 'F'", 35, 55),
        ("SELECT AVG(salary) AS x FROM release WHERE zip LIKE '912%'", 110 / 3, 160 / 3),
        ("SELECT AVG(salary) AS x FROM release WHERE zip LIKE '913%'", 35, 55),
        ("SELECT SUM(salary) AS x FROM release WHERE zip LIKE '913%'", 140, 220),
        ("SELECT AVG(salary) AS x FROM release WHERE zip IN ('91120', '91220', '91320') AND sex <> 'M'", 30, 60),
        ("SELECT AVG(salary) FILTER (WHERE sex = 'F') AS x FROM release", 35, 55),
        ("SELECT COUNT(*) AS x FROM release WHERE salary > 40", 4, 7),
        ("SELECT AVG(CASE WHEN salary > 40 THEN 1 ELSE 0 END) AS x FROM release", 4 / 11, 7 / 11),
        ("SELECT MIN(salary) AS x FROM release WHERE zip LIKE '911%'", 30, 30),
        ("SELECT MAX(salary) AS x FROM release WHERE zip LIKE '912%'", 50, 60),
        ("SELECT MEDIAN(salary) AS x FROM release WHERE zip LIKE '911%'", 45, 45),
        ("SELECT quantile_disc(salary, 0.25) AS x FROM release WHERE zip LIKE '911%'", 30, 30),
        ("SELECT AVG(salary) AS x FROM release WHERE salary >= 50 AND zip LIKE '913%'", 50, 60),
    ],
)
def test_salary_answers(release: sf.Release, sql: str, low: float, high: float) -> None:
    found = bounds(release, sql)
    assert found == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))
    assert found[0] <= low
    assert found[1] >= high


def test_fakes_narrow_the_second_group(tmp_path: Path) -> None:
    release = publish(tmp_path, SALARIES, ROLES, by_zip(fakes="1/3"))
    assert bounds(release, "SELECT AVG(salary) AS x FROM release WHERE zip LIKE '912%'") == (40, 50)
    assert bounds(release, "SELECT SUM(salary) AS x FROM release WHERE zip LIKE '913%'") == (150, 220)


def test_a_count_without_the_sensitive_column_is_exact(release: sf.Release) -> None:
    answer = json.loads(release.sql("SELECT sex, COUNT(*) AS n FROM release GROUP BY sex ORDER BY sex").to_json())
    assert answer["kind"] == "exact"
    assert [(r["n"], r["n_low"], r["n_high"]) for r in answer["rows"]] == [(6, 6, 6), (5, 5, 5)]


def test_bounds_come_without_an_invented_estimate(release: sf.Release) -> None:
    answer = json.loads(release.sql("SELECT AVG(salary) AS x FROM release").to_json())
    assert answer["kind"] == "bounds"
    assert answer["rows"][0]["x"] is None


def test_group_by_a_sensitive_value_lists_the_domain(release: sf.Release) -> None:
    answer = json.loads(release.sql("SELECT salary, COUNT(*) AS n FROM release GROUP BY salary").to_json())
    assert [(r["salary"], r["n_low"], r["n_high"]) for r in answer["rows"]] == [(v, 1, 6) for v in (30, 40, 50, 60)]


def test_conditions_on_different_columns_give_outer_bounds_and_say_so(release: sf.Release) -> None:
    sql = "SELECT COUNT(*) AS x FROM release WHERE (sex = 'F' AND salary > 40) OR (sex = 'M' AND salary <= 40)"
    answer = release.sql(sql)
    assert any("wider than needed" in note for note in answer.caveats)
    low, high = bounds(release, sql)
    truth = 5  # F: 60, 50, 60; M: 40, 40
    assert low <= truth <= high


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT MIN(salary) FROM release WHERE salary > 30", "MIN is answered"),
        ("SELECT MEDIAN(salary) FILTER (WHERE salary > 30) FROM release", "MEDIAN is answered"),
        ("SELECT salary, MAX(salary) FROM release GROUP BY salary", "MAX is answered"),
    ],
)
def test_order_statistics_with_a_sensitive_condition_are_refused_by_name(
    release: sf.Release, sql: str, message: str
) -> None:
    with pytest.raises(UnsupportedQuery, match=message):
        release.sql(sql)


def test_an_unknown_sensitive_value_is_refused(release: sf.Release) -> None:
    with pytest.raises(QueryError, match="has no value 45"):
        release.sql("SELECT COUNT(*) FROM release WHERE salary = 45")


def test_a_release_holds_blocks_and_nothing_else(release: sf.Release) -> None:
    side = pq.read_table(release.path / "sensitive.parquet")
    assert side.column_names == ["group_id", "block", "count", "low", "high"]
    rows = [(r["group_id"], r["low"], r["high"], r["count"]) for r in side.to_pylist()]
    assert rows[4:] == [
        (1, 30, 60, 1), (1, 30, 40, 1), (1, 50, 60, 1), (2, 30, 60, 2), (2, 30, 40, 1), (2, 50, 60, 1),
    ]  # fmt: skip
    assert rows[:4] == [(0, v, v, 1) for v in SALARIES["salary"].to_pylist()[:4]]
    assert set(pq.read_table(release.path / "data.parquet").column_names) == {"zip", "sex", "group_id"}
    parameters = json.loads((release.path / "release.json").read_text())["law"]
    assert parameters["parts"][0]["probabilities"] == ["1/4"] * 4
    assert parameters["group_rows"] == [4, 3, 4]
    assert not {"seed", "true", "fake"} & set(json.dumps(parameters).replace('"', " ").split())


def test_verify_recomputes_the_definition(release: sf.Release, tmp_path: Path) -> None:
    assert any("what is published" in line for line in verify(release.opened, test=True))

    def one_leaf_too_many(side: pa.Table) -> pa.Table:
        block = side["block"].to_pylist()
        return side.set_column(1, "block", pa.array([6, *block[1:]], pa.int32()))

    with pytest.raises(VerificationError, match=r"keep the guarantee|different things"):
        verified(forged(release.path, tmp_path / "out", side=one_leaf_too_many))


def test_taxonomies_and_their_labels(tmp_path: Path) -> None:
    table = pa.table({"disease": DISEASES, "age": list(range(6))})
    roles = sf.Roles(sensitive="disease", quasi=["age"])
    method = sf.TargetDistribution(target="uniform", hierarchy=TAXONOMY, fakes=0)
    release = publish(tmp_path, table, roles, method)
    side = pq.read_table(release.path / "sensitive.parquet").to_pylist()
    everything = "flu | cold | pneu | ulcer | gastritis"
    assert [(r["values"], r["count"]) for r in side] == [(name, 1) for name in (everything, *DISEASES_ORDER)]
    assert bounds(release, "SELECT COUNT(*) AS x FROM release WHERE disease IN ('flu', 'cold')") == (2, 3)


def test_hierarchies_and_targets_from_files(tmp_path: Path) -> None:
    tree, weights, parts = tmp_path / "h.csv", tmp_path / "w.csv", tmp_path / "p.csv"
    tree.write_text("flu;resp;*\nulcer;dig;*\ncold;resp;*\npneu;resp;*\ngastritis;dig;*\n")
    weights.write_text("value,weight\nflu,2\ncold,1\nulcer,1/2\n")
    parts.write_text("F,flu,1\nF,cold,1\nM,flu,1\n")
    assert read_hierarchy(str(tree))[0] == ("flu", "resp", "*")
    assert read_target(str(weights)) == {"flu": "2", "cold": "1", "ulcer": "1/2"}
    assert read_target(str(parts)) == {"F": {"flu": "1", "cold": "1"}, "M": {"flu": "1"}}
    spec = build("target-distribution", {"hierarchy": str(tree), "target": str(weights), "fakes": "0"}, readers=READERS)
    table = pa.table({"disease": DISEASES, "age": list(range(6))})
    release = publish(tmp_path, table, sf.Roles(sensitive="disease", quasi=["age"]), spec)
    part = release.plan.law.parts[0]
    shares = {DISEASES_ORDER[i]: p for i, p in enumerate(part.probabilities)}
    assert shares["flu"] * 7 == 4
    assert shares["gastritis"] == 0
    assert release.plan.law.labels is not None
    assert set(release.plan.law.labels) >= {"resp", "dig"}


DISEASES_ORDER = ["flu", "cold", "pneu", "ulcer", "gastritis"]


@pytest.mark.parametrize("text", ["a,1\na,2\n", "a,1,2,3\n", "a\n"])
def test_bad_target_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.csv").write_text(text)
    with pytest.raises(SpecError):
        read_target(str(tmp_path / "w.csv"))


def test_each_part_has_its_own_target(tmp_path: Path) -> None:
    table = pa.table({"age": [23] * 8 + [35] * 8, "x": [1] * 6 + [2] * 8 + [1] * 2})
    method = sf.TargetDistribution(target_by="age//10", fakes=0)
    release = publish(tmp_path, table, sf.Roles(sensitive="x", quasi=["age"]), method)
    first, second = (part.probabilities for part in release.plan.law.parts)
    assert [str(p) for p in first] == ["3/4", "1/4"]
    assert [str(p) for p in second] == ["1/4", "3/4"]
    assert bounds(release, "SELECT SUM(x) AS x FROM release WHERE age = 23") == (10, 10)


def test_small_groups_are_merged_with_their_neighbours_or_sent_to_the_root(tmp_path: Path) -> None:
    table = pa.table({"age": [20, 21, 21, 22, 22, 22, 22, 22, 23], "x": [1, 2, 1, 2, 1, 2, 1, 2, 1]})
    roles = sf.Roles(sensitive="x", quasi=["age"])
    for least, sizes in ((5, (9,)), (3, (3, 6)), (1, (1, 2, 5, 1))):
        method = sf.TargetDistribution(partition_by="age", target="uniform", fakes=0, min_group=least)
        assert publish(tmp_path, table, roles, method).plan.law.group_rows == sizes
    tiny = publish(tmp_path, table.slice(0, 3), roles, sf.TargetDistribution(target="uniform", fakes=0))
    assert bounds(tiny, "SELECT SUM(x) AS x FROM release") == (3, 6)


@pytest.mark.parametrize(
    "options",
    [
        {"target": "gauss"},
        {"target": 3},
        {"hierarchy": "balanced(1)"},
        {"hierarchy": "tree"},
        {"hierarchy": []},
        {"fakes": -1},
        {"fakes": "3/2"},
        {"max_weight": 1},
        {"min_group": 0},
        {"partition_by": "age//0"},
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        sf.TargetDistribution(**options)


@pytest.mark.parametrize(
    ("method", "roles"),
    [
        (sf.TargetDistribution(partition_by="salary"), ROLES),
        (sf.TargetDistribution(partition_by="nothing"), ROLES),
        (sf.TargetDistribution(), sf.Roles(sensitive=["salary", "sex"], quasi=["zip"])),
        (sf.TargetDistribution(hierarchy=[[30, 40], [50]]), ROLES),
        (sf.TargetDistribution(hierarchy=[[30, 50], [40, 60]]), ROLES),
        (sf.TargetDistribution(target={"30": 1, "99": 2}), ROLES),
        (sf.TargetDistribution(target="normal(1,2)"), sf.Roles(sensitive="sex", quasi=["salary", "zip"])),
        (sf.TargetDistribution(partition_by="sex//2"), ROLES),
    ],
)
def test_requests_that_do_not_fit_the_table_are_refused(method: Any, roles: sf.Roles, tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        sf.publish(SALARIES, tmp_path / "o", roles=roles, method=method)


def test_refusals_do_not_quote_the_table(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        publish(tmp_path, SALARIES, ROLES, sf.TargetDistribution(hierarchy=[[30, 40], [50]]))
    assert "60" not in str(refused.value)
    with pytest.raises(DataError, match="2 rows"):
        publish(
            tmp_path,
            pa.table({"x": [1, None, None], "y": [1, 2, 3]}),
            sf.Roles(sensitive="x", quasi=["y"]),
            sf.TargetDistribution(),
        )


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-5, 0, 1, 2, 7, 30])), min_size=2, max_size=40).filter(
        lambda rows: len({value for _, value in rows}) > 1
    ),
    st.sampled_from(["source", "uniform", "zipf(1)"]),
    st.sampled_from(["0", "0.2"]),
    st.integers(0, 3),
)
def test_bounds_contain_the_truth_through_sql(rows: list[tuple[int, int]], target: str, fakes: str, cut: int) -> None:
    g, x = (np.array(column) for column in zip(*rows, strict=True))
    mine = x[g <= cut]
    sql = "SELECT SUM(x) s, AVG(x) a, MIN(x) lo, MAX(x) hi, MEDIAN(x) m, COUNT(*) FILTER (WHERE x > 0) n FROM release"
    method = sf.TargetDistribution(target=target, partition_by="g", fakes=fakes, min_group=2)
    with tempfile.TemporaryDirectory() as folder:
        release = publish(Path(folder), pa.table({"g": g, "x": x}), sf.Roles(sensitive="x", quasi=["g"]), method)
        (row,) = json.loads(release.sql(f"{sql} WHERE g <= {cut}").to_json())["rows"]
    truth = {"n": (mine > 0).sum()}
    if len(mine):
        truth |= {"s": mine.sum(), "a": mine.mean(), "lo": mine.min(), "hi": mine.max(), "m": np.median(mine)}
    for name, value in truth.items():
        assert row[f"{name}_low"] <= value + 1e-12 * abs(value)
        assert row[f"{name}_high"] >= value - 1e-12 * abs(value)


def test_the_mechanism_states_its_trust() -> None:
    assert target_distribution.trust == "conditional"


def test_randomised_depth_keeps_the_definition_and_widens_the_bounds(tmp_path: Path) -> None:
    fixed = publish(tmp_path / "a", SALARIES, ROLES, by_zip())
    loose = publish(tmp_path / "b", SALARIES, ROLES, by_zip(randomise_depth=True))
    assert any("what is published" in line for line in verify(loose.opened, test=True))
    sql = "SELECT SUM(salary) AS x FROM release"
    (low, high), (wide_low, wide_high) = bounds(fixed, sql), bounds(loose, sql)
    assert wide_low <= low <= high <= wide_high
    assert (wide_low, wide_high) != (low, high)


def test_rollup_totals_equal_the_plain_question(release: sf.Release) -> None:
    """Rows of several strata meet again in one group: they must compete for its blocks."""
    rolled = json.loads(release.sql("SELECT sex, SUM(salary) AS x FROM release GROUP BY ROLLUP (sex)").to_json())[
        "rows"
    ]
    (total,) = [row for row in rolled if row["sex"] is None]
    assert (total["x_low"], total["x_high"]) == bounds(release, "SELECT SUM(salary) AS x FROM release")
    assert total["x_high"] - total["x_low"] < sum(r["x_high"] - r["x_low"] for r in rolled if r["sex"] is not None)


def test_decimal_and_fractional_values_stay_inside_their_bounds(tmp_path: Path) -> None:
    """0.1 is no binary fraction: its exact form has a denominator of 2^55, beyond int64 once rows multiply it."""
    rng = np.random.default_rng(101)
    x = rng.choice([0.1, 0.2, 0.7, 1e6 + 0.3, -3.3], 3000)
    table = pa.table({"x": x, "g": rng.integers(0, 4, 3000)})
    release = publish(tmp_path, table, sf.Roles(sensitive="x", quasi=["g"]), sf.TargetDistribution(target="zipf(1)"))
    for g in range(4):
        mine = [Fraction(v) for v in x[table["g"].to_numpy() == g].tolist()]
        low, high = bounds(release, f"SELECT SUM(x) AS x FROM release WHERE g = {g}")
        assert Fraction(low) <= sum(mine) <= Fraction(high)
        low, high = bounds(release, f"SELECT AVG(x) AS x FROM release WHERE g = {g}")
        assert Fraction(low) <= sum(mine) / len(mine) <= Fraction(high)
        low, high = bounds(release, f"SELECT AVG(x) AS x FROM release WHERE g = {g} AND x > 0")
        above = [v for v in mine if v > 0]
        assert Fraction(low) <= sum(above) / len(above) <= Fraction(high)
