"""Lists of sets made for declared questions: kinds, mixes, SQL, and how far each is from the best."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from constants import SEED
from pays import METHODS, PAYS, RHOS, ROLES, ROWS, table
from sfumato.errors import PlanError, SpecError
from sfumato.methods.shared.workloads import parse_workload
from sfumato.model.public import Domain
from sfumato.publish import prepare
from sfumato.publishing.custodian import read_sql
from sfumato.publishing.randomness import Secret


def test_a_workload_lowers_its_own_error_and_says_how_far_it_is_from_the_best() -> None:
    def planned(**options: Any) -> dict[str, Any]:
        method = sf.SubsetResponse(**RHOS, **options)
        return prepare(table(), roles=ROLES, method=method, secret=Secret.from_seed(1)).report()

    plain, ranges = planned(), planned(workload="ranges")
    assert plain["times_least"] == pytest.approx(1.0, abs=0.01)
    assert plain["workload"] is None
    assert ranges["workload"]["certified"]
    assert 0 <= ranges["workload"]["gap"] <= 0.01
    assert ranges["times_least"] > 1.02  # single values pay for it
    assert any("least possible" in note for note in ranges["notes"])
    question = "SELECT COUNT(*) AS n FROM release WHERE pay BETWEEN 16 AND 26"
    se = {}
    for name in ("table-wide", "ranges"):
        release = sf.publish(table(), roles=ROLES, method=METHODS[name], seed=SEED)
        se[name] = release.sql(question).rows()[0]["n_se"]
    assert se["ranges"] < 0.95 * se["table-wide"]


@pytest.mark.parametrize(
    ("column", "workload", "said"),
    [
        ("sex", "ranges", "numbers or dates"),
        ("age", "means", "not known"),
        ("wide", "sum", "128"),
        ("wide", "ranges:x", "number"),
        ("wide", "ranges:", "number"),
    ],
)
def test_workloads_without_meaning_are_refused(column: str, workload: str, said: str) -> None:
    rng = np.random.default_rng(1)
    source = table().append_column("wide", pa.array(rng.integers(0, 200, ROWS)))
    with pytest.raises(SpecError, match=said):
        prepare(
            source,
            roles=sf.Roles(sensitive=column, rest="quasi"),
            method=sf.SubsetResponse(rho1="1/2", rho2="2/3", workload=workload),
            secret=Secret.from_seed(1),
        )


SQL = "SELECT COUNT(*) FROM release WHERE pay > 20; SELECT sex, AVG(pay) FROM release WHERE age < 30 GROUP BY sex"


@pytest.mark.parametrize("kind", [sf.SubsetResponse, sf.SmallDomain])
def test_questions_in_sql_are_what_the_list_is_made_for(kind: Any, tmp_path: Path) -> None:
    def se(workload: str | None) -> float:
        release = sf.publish(table(), roles=ROLES, method=kind(**RHOS, workload=workload), seed=SEED)
        return float(release.sql("SELECT COUNT(*) AS n FROM release WHERE pay > 20").rows()[0]["n_se"])

    assert se(SQL) < 0.9 * se(None)
    prepared = prepare(table(), roles=ROLES, method=kind(**RHOS, workload=SQL), secret=Secret.from_seed(1))
    rows = prepared.profile.questions
    assert rows is not None
    assert rows.tolist() == [[float(pay > 20) for pay in PAYS], [float(pay) for pay in PAYS]]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT MIN(pay) FROM release", "MIN"),
        ("SELECT COUNT(*) FROM release WHERE age > 3", "asks nothing"),
        ("SELECT COUNT(*) FROM release WHERE wage = 3", "wage"),
        ("SELECT COUNT(* FROM", "SQL"),
    ],
)
def test_questions_that_are_no_sums_are_named(sql: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        prepare(table(), roles=ROLES, method=sf.SubsetResponse(**RHOS, workload=sql), secret=Secret.from_seed(1))


def test_mixes_of_kinds_and_questions_in_sql(tmp_path: Path) -> None:
    both = parse_workload(f"ranges:1,sql:3; {SQL}")
    assert both is not None
    assert both.shares == (("ranges", 0.25), ("sql", 0.75))
    assert both.sql == SQL
    (tmp_path / "asked.sql").write_text(SQL)
    assert read_sql(f"ranges:1,{tmp_path / 'asked.sql'}:3") == f"ranges:1,sql:3; {SQL}"
    assert read_sql(str(tmp_path / "asked.sql")) == SQL
    for text in ("ranges:1,sql:2", f"ranges:1; {SQL}", "ranges:1,sql:0; SELECT 1"):
        with pytest.raises(SpecError):
            parse_workload(text)
    plans = [
        prepare(table(), roles=ROLES, method=sf.SubsetResponse(**RHOS, workload=text), secret=Secret.from_seed(1))
        for text in (SQL, f"sql:1,histogram:9; {SQL}")
    ]
    assert plans[0].report()["times_least"] > plans[1].report()["times_least"]  # the mix is nearer to single values


def test_a_search_says_how_far_it_is_from_the_best() -> None:
    told: list[tuple[str, int, int]] = []
    for method in (METHODS["ranges"], METHODS["sums in sub-tables"]):
        prepare(table(), roles=ROLES, method=method, secret=Secret.from_seed(1), progress=lambda *at: told.append(at))
    assert told
    assert all(stage.startswith("workload, gap ") and 0 < done <= whole for stage, done, whole in told)
    assert any("sub-table 2 of" in stage for stage, _, _ in told)


def test_a_file_of_questions_on_the_command_line(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "t.parquet")
    (tmp_path / "asked.sql").write_text(SQL)
    arguments = ("--sa", "pay", "--rest", "quasi", "--rho1", "1/5", "--rho2", "1/3", "--json")
    done = sfumato(
        "plan", tmp_path / "t.parquet", *arguments, "--method", "subset-response", "--workload", tmp_path / "asked.sql"
    )
    assert done.code == 0, done.text
    assert json.loads(done.out)["workload"]["gap"] <= 0.01
    assert sfumato("plan", tmp_path / "t.parquet", *arguments, "--workload", tmp_path / "none.sql").code == 2


@pytest.mark.parametrize(("kind", "gain"), [(sf.SubsetResponse, 0.9), (sf.SmallDomain, 1.0)])
def test_a_wide_column_is_binned_and_ranges_run_over_bins_in_their_order(kind: Any, gain: float) -> None:
    """Sub-tables have five or six of the twelve bins: fewer ranges to be made for, less to gain."""
    rng = np.random.default_rng(4)
    source = pa.table({"wage": rng.integers(-60, 60, ROWS), "age": rng.integers(20, 60, ROWS)})
    roles = sf.Roles(sensitive="wage", quasi=["age"])
    edges = tuple(range(-60, 60, 10))  # in the alphabet "[-10, 0)" comes before "[-20, -10)"
    made = {
        workload: sf.publish(
            source, roles=roles, method=kind(**RHOS, bins={"wage": edges}, workload=workload), seed=SEED
        )
        for workload in (None, "ranges")
    }
    middle = ", ".join(f"'[{a}, {a + 10})'" for a in range(-30, 30, 10))
    question = f"SELECT COUNT(*) AS n FROM release WHERE wage IN ({middle})"
    rows = {workload: release.sql(question).rows()[0] for workload, release in made.items()}
    assert rows["ranges"]["n_se"] < gain * rows[None]["n_se"]
    true = int(np.isin(source["wage"].to_numpy() // 10, range(-3, 3)).sum())
    for row in rows.values():
        assert abs(row["n"] - true) < 6 * row["n_se"]  # false alarm below 1e-8
    with pytest.raises(SpecError, match="no sum"):
        prepare(
            source,
            roles=roles,
            method=kind(**RHOS, bins={"wage": edges}, workload="sum"),
            secret=Secret.from_seed(1),
        )


def questions_of(sql: str) -> list[list[float]]:
    prepared = prepare(table(), roles=ROLES, method=sf.SubsetResponse(**RHOS, workload=sql), secret=Secret.from_seed(1))
    assert prepared.profile.questions is not None
    return [[float(number) for number in row] for row in prepared.profile.questions]


def test_a_condition_that_another_column_may_decide_alone_is_taken_as_not_met() -> None:
    high = [float(pay > 20) for pay in PAYS]
    assert questions_of("SELECT COUNT(*) FROM release WHERE pay > 20 OR age > 50") == [high]
    assert questions_of("SELECT COUNT(*) FROM release WHERE NOT (age > 50 OR pay <= 20)") == [high]
    assert questions_of("SELECT COUNT(*) FROM release WHERE pay > 20 AND age > 50") == [high]


def test_the_unit_of_a_sum_does_not_decide_what_a_list_is_made_for() -> None:
    """A count and a sum weigh alike, in euros or in thousandths; a count asked three times weighs three times."""
    domain = Domain(columns=("pay",), values=tuple((pay,) for pay in PAYS))
    count = np.array([float(pay > 20) for pay in PAYS])
    total = np.array([float(pay) for pay in PAYS])
    workload = parse_workload(SQL)
    assert workload is not None

    def gram(*rows: Any) -> Any:
        return workload.gram(domain, Fraction(2), questions=np.array(rows))

    mixed = gram(count, total)
    for factor in (1000.0, 1e-200, 1e200):
        np.testing.assert_allclose(gram(count, factor * total), mixed, rtol=1e-9)
    alone = gram(count), gram(total)
    np.testing.assert_allclose(mixed, (alone[0] + alone[1]) / 2, rtol=1e-9)
    assert np.abs(gram(count, count, count, total) - mixed).max() > 0.01 * np.abs(mixed).max()


@pytest.mark.parametrize("start", [0, 2**62, 10**300, Fraction(1, 10**200)])
def test_sums_of_very_large_and_very_small_numbers_have_a_list_of_their_own(start: Any) -> None:
    """What counts is how far numbers are from each other; 2^62 and 2^62 + 1 are one floating point number."""
    step = start if isinstance(start, Fraction) else 1
    values = tuple((start + step * i,) for i in range(6))
    workload = parse_workload("sum")
    assert workload is not None
    plain = workload.gram(Domain(columns=("pay",), values=tuple((i,) for i in range(6))), Fraction(2))
    np.testing.assert_allclose(workload.gram(Domain(columns=("pay",), values=values), Fraction(2)), plain, rtol=1e-9)


def test_files_of_questions_may_begin_with_comments(tmp_path: Path) -> None:
    file = tmp_path / "asked.sql"
    file.write_text(f"-- what we ask every year\n\n/* two\n questions */ {SQL}")
    assert read_sql(str(file)) == SQL
    for text in ("-- SELECT 1", "/* SELECT 1 */", "-- a\nDROP TABLE release"):
        file.write_text(text)
        with pytest.raises(SpecError, match="must hold SELECT"):
            read_sql(str(file))


def test_sub_tables_that_are_too_wide_for_a_search_are_refused_with_the_way_out() -> None:
    rng = np.random.default_rng(4)
    source = pa.table({"wage": rng.integers(0, 3000, ROWS), "age": rng.integers(20, 60, ROWS)})
    method = sf.SmallDomain(rho1="1/13", rho2="1/6", workload="sum")
    with pytest.raises(PlanError, match=r"128 values and one has 1\d\d; lower --min-size"):
        prepare(source, roles=sf.Roles(sensitive="wage", quasi=["age"]), method=method, secret=Secret.from_seed(1))


@pytest.mark.parametrize("kind", [sf.SubsetResponse, sf.SmallDomain])
@pytest.mark.parametrize("bins", [3, ["pay"], {"pay": 3}, {"pay": "1,2"}, {"pay": None}, {"pay": [1, "x"]}])
def test_bins_of_wrong_types_are_refused(kind: Any, bins: Any) -> None:
    with pytest.raises(SpecError, match="bins"):
        kind(**RHOS, bins=bins)
