"""Releases of sets: what is in the files, counting without sfumato, questions, refusals."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from constants import SEED
from pays import METHODS, PAYS, RHOS, ROLES, ROWS, table
from sfumato.errors import PlanError, SpecError
from sfumato.laws.functionals import Cells, CodedUnit, Functions
from sfumato.methods.subset_response import MOST_VALUES
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.release.verify import verify


@pytest.fixture(scope="module", params=METHODS)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    out = tmp_path_factory.mktemp("sets") / "release"
    return sf.publish(table(), out, roles=ROLES, method=METHODS[request.param], seed=SEED)


def files(release: sf.Release) -> tuple[str, str]:
    return str(release.path / "data.parquet"), str(release.path / "sets.parquet")


def test_rows_carry_the_number_of_a_set_that_is_said_beside_them(release: sf.Release) -> None:
    data, sets = (pq.read_table(file) for file in files(release))
    assert data.schema.names[:2] == ["age", "pay_set"]
    assert "pay" not in data.schema.names
    assert data.schema.field("pay_set").type == sets.schema.field("pay_set").type == pa.int16()
    assert sets.schema.names == ["pay_set", "value", "member", "weight", "variance_weight"]
    held: dict[int, list[int]] = {}
    for number, value, member in zip(*(sets[name].to_pylist() for name in sets.schema.names[:3]), strict=True):
        held.setdefault(number, []).extend([value] * member)
    assert set(data["pay_set"].to_pylist()) <= set(held)
    for values in held.values():
        assert values == sorted(set(values))
        assert set() < set(values) < set(PAYS)
    stated = json.loads((release.path / "release.json").read_text())
    columns = {c["name"]: c for c in stated["columns"]}
    assert columns["pay"]["type"] == "BIGINT"
    assert "released_type" not in columns["pay"]
    assert (columns["pay_set"]["role"], columns["pay_set"]["type"]) == ("set", "SMALLINT")
    package = json.loads((release.path / "datapackage.json").read_text())
    fields = {f["name"]: f["type"] for r in package["resources"] for f in r["schema"]["fields"]}
    assert (fields["pay_set"], fields["value"], fields["member"]) == ("integer", "integer", "boolean")
    assert {r["path"] for r in package["resources"]} == {"data.parquet", "sets.parquet"}


def test_anybody_counts_by_one_join_in_duckdb(release: sf.Release) -> None:
    data, weights = files(release)
    for value, condition in ((10, "age < 50"), (PAYS[-1], "sex = 'f'"), (14, "age = 33")):
        (row,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE pay = {value} AND {condition}").rows()
        [(n, variance)] = duckdb.sql(
            f"SELECT SUM(w.weight), SUM(w.variance_weight) FROM '{data}' d JOIN '{weights}' w USING (pay_set) "
            f"WHERE w.value = {value} AND {condition}"
        ).fetchall()
        assert n == pytest.approx(row["n"], rel=1e-9)
        assert variance <= row["n_se"] ** 2 * (1 + 1e-9)  # sfumato states no less than any data would have
        if condition != "age = 33":
            assert variance == pytest.approx(row["n_se"] ** 2, rel=1e-9)


@pytest.mark.parametrize("name", ["table-wide", "two columns", 'a "quoted" name'])
def test_the_join_that_the_readme_shows_counts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as it stands there, in the folder of the release."""
    named, method = name if "name" in name else "pay", METHODS["table-wide"]
    source = table().rename_columns([named if column == "pay" else column for column in table().column_names])
    sensitive = (named, "sex") if name == "two columns" else (named,)
    others = [column for column in source.column_names if column not in sensitive]
    roles = sf.Roles(sensitive=sensitive, quasi=others)
    release = sf.publish(source, tmp_path / "out", roles=roles, method=method, seed=SEED)
    (shown,) = re.findall(r"```sql\n(.*?)```", (release.path / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(release.path)
    counted = {row[:-2]: row[-2:] for row in duckdb.sql(shown).fetchall()}
    columns = ", ".join('"' + column.replace('"', '""') + '"' for column in sensitive)
    for row in release.sql(f"SELECT {columns}, COUNT(*) AS n FROM release GROUP BY {columns}").rows():
        n, se = counted.pop(tuple(row[column] for column in sensitive))
        assert n == pytest.approx(row["n"], rel=1e-9)
        assert se <= row["n_se"] * (1 + 1e-9)
    assert not counted


def test_anybody_counts_by_one_join_in_pandas(release: sf.Release) -> None:
    data, weights = (pd.read_parquet(file) for file in files(release))
    joined = data[data.sex == "m"].merge(weights[weights["value"] == 20], on="pay_set")
    (row,) = release.sql("SELECT COUNT(*) AS n FROM release WHERE pay = 20 AND sex = 'm'").rows()
    assert joined.weight.sum() == pytest.approx(row["n"], rel=1e-9)


def test_weights_give_back_every_count_in_the_mean(release: sf.Release) -> None:
    """Sum over sets of Pr[Z | x] weight(Z, y) = [x = y], from the plan's exact probabilities."""
    weights = pq.read_table(release.path / "sets.parquet")
    tables = release.plan.law.tables
    found = np.zeros((int(tables.start[-1]), len(PAYS)))
    found[weights["pay_set"].to_numpy(), np.searchsorted(PAYS, weights["value"].to_numpy())] = weights["weight"]
    for i, values in enumerate(tables.values):
        mean = tables.channels[i].matrix().T @ found[tables.start[i] : tables.start[i + 1]][:, values]
        assert np.allclose(mean, np.eye(len(values)), atol=1e-8)


def test_questions_of_every_kind_come_near_the_truth(release: sf.Release) -> None:
    """Within six standard errors: 20 questions, false alarm below 1e-7."""
    questions = (
        "SELECT pay, COUNT(*) AS n FROM release GROUP BY pay ORDER BY pay",
        "SELECT sex, SUM(pay) AS n FROM release GROUP BY sex ORDER BY sex",
        "SELECT AVG(pay) AS n FROM release WHERE age < 40",
        "SELECT SUM(age) AS n FROM release WHERE pay BETWEEN 14 AND 20",
        "SELECT AVG(age) AS n FROM release WHERE pay IN (10, 12)",
        "SELECT COUNT(*) AS n FROM release WHERE NOT (pay > 15 OR sex = 'f') OR age = 21",
        "SELECT COUNT(*) AS n FROM release WHERE pay > 15 AND age = 21 AND sex = 'f'",
    )
    with duckdb.connect() as con:
        con.register("release", table())
        for sql in questions:
            truth = [float(row[-1]) for row in con.sql(sql).fetchall()]
            rows = release.sql(sql).rows()
            assert len(rows) == len(truth)
            for row, true in zip(rows, truth, strict=True):
                assert row["n_se"] > 0
                assert abs(row["n"] - true) < 6 * row["n_se"]
                assert row["n_low"] <= row["n_high"]
    (row,) = release.sql("SELECT COUNT(*) AS n FROM release WHERE age < 40").rows()
    assert row["n_se"] == 0


def test_what_cannot_be_answered_is_refused(release: sf.Release) -> None:
    for sql in (
        "SELECT MIN(pay) FROM release",
        "SELECT COUNT(DISTINCT pay) FROM release",
        "SELECT COUNT(*) FROM release WHERE pay_set = 1",
        "SELECT pay_set, COUNT(*) FROM release GROUP BY pay_set",
    ):
        with pytest.raises(sf.errors.QueryError):
            release.sql(sql)


def test_verify_says_what_holds(release: sf.Release) -> None:
    lines = list(verify(sf.open_release(release.path).opened, test=True))
    assert any(line.startswith("guarantee recomputed") for line in lines)
    assert any("held:" in line for line in lines)


def test_explain_shows_the_weights() -> None:
    release = sf.publish(table(), roles=ROLES, method=METHODS["table-wide"], seed=SEED)
    told = release.explain("SELECT COUNT(*) AS n FROM release WHERE pay IN (10, 12) AND sex = 'f'")
    assert "sets.parquet" in told
    assert "weights of n, by set:" in told
    weights = pq.read_table(release.path / "sets.parquet").to_pandas()
    both = weights[weights["value"].isin([10, 12])].groupby("pay_set")["weight"].sum()
    first = next(line for line in told.splitlines() if line.startswith("  +"))
    assert first.split()[0] == f"{both.max():+.4f}"
    assert " 10, 12" in first
    assert "by set" not in release.explain("SELECT COUNT(*) FROM release WHERE sex = 'f'")


def test_sets_of_a_compound_value_have_a_column_for_each_of_its_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    source = pa.table(
        {"a": rng.integers(0, 4, ROWS), "b": rng.choice(["x", "y", None], ROWS), "age": rng.integers(0, 9, ROWS)}
    )
    roles = sf.Roles(sensitive=("a", "b"), quasi=["age"])
    release = sf.publish(
        source, tmp_path / "r", roles=roles, method=sf.SubsetResponse(**RHOS), null_as_value=True, seed=SEED
    )
    data = pq.read_table(release.path / "data.parquet")
    assert set(data.schema.names) == {"age", "a_b_set"}
    weights = pq.read_table(release.path / "sets.parquet")
    assert weights.schema.names == ["a_b_set", "value_a", "value_b", "member", "weight", "variance_weight"]
    (row,) = release.sql("SELECT COUNT(*) AS n FROM release WHERE a = 2 AND b IS NULL").rows()
    frame = data.to_pandas().merge(weights.to_pandas(), on="a_b_set")
    alone = frame[(frame.value_a == 2) & frame.value_b.isna()]
    assert alone.weight.sum() == pytest.approx(row["n"], rel=1e-9)
    assert list(verify(sf.open_release(release.path).opened, test=True))


def test_the_plan_depends_on_the_domain_alone() -> None:
    plans = [
        prepare(
            table(seed), roles=ROLES, method=sf.SubsetResponse(**RHOS), secret=Secret.from_seed(seed)
        ).planned.public
        for seed in (1, 2)
    ]
    assert plans[0] == plans[1]


def test_foreseen_sums_are_the_true_ones_with_their_exact_covariance() -> None:
    """Cov = sum over the cell's rows of v_hk(value), the covariance of one record's weights."""
    found = prepare(table(), roles=ROLES, method=METHODS["table-wide"], secret=Secret.from_seed(1))
    plan, profile = found.planned.public, found.profile
    foresight = plan.law.foresee(found.planned.work, profile, profile.domains)
    assert foresight is not None
    assert foresight.functionals is not None
    true = np.stack([profile.true_counts(), profile.true_counts()[::-1]]).astype(float)
    cell, value = (a.ravel() for a in np.indices(true.shape))
    moments = true.ravel()[:, None, None]
    cells = Cells(cell=cell, part=np.zeros_like(cell), value=value, moments=moments, cells=2, rows=2 * ROWS)
    sums = foresight.functionals(cells, [CodedUnit(unit=0, classes=np.arange(len(PAYS), dtype=np.int32))])
    assert sums is not None
    h = np.random.default_rng(2).normal(size=(2, 3, len(PAYS)))
    np.testing.assert_allclose(sums.value(Functions.of(h)), np.einsum("cv,cfv->f", true, h))
    answers = plan.law.tables.answers(0)
    wanted = [
        [sum(true[c] @ answers.covariance(h[c, [f]], h[c, [g]])[0] for c in (0, 1)) for g in range(3)] for f in range(3)
    ]
    np.testing.assert_allclose(sums.covariance(Functions.of(h), "table"), wanted, rtol=1e-8)


def test_models_tests_and_quantiles_of_a_release_of_sets(release: sf.Release) -> None:
    """Within six standard errors of the fit of the original rows, the median in its interval at 1 - 1e-9.

    Sixteen coefficients, eight medians and tests: false alarm below 1e-6.
    """
    rows = table().to_pandas()
    for x, y in (("pay", "age"), ("age", "pay")):
        slope, intercept = np.polyfit(rows[x], rows[y], 1)
        found = release.fit(f"{y} ~ {x}")
        assert (np.asarray(found.bse_table) > 0).all()
        assert (np.abs(np.asarray(found.estimates) - [intercept, slope]) < 6 * np.asarray(found.bse_table)).all()
    bands = {"age": {"young": list(range(20, 51)), "old": list(range(51, 60))}}
    assert release.test("pay", "age", recode=bands).pvalue < 1e-9
    assert release.test("pay", "sex").pvalue > 1e-9
    (median,) = release.quantile("pay", 0.5, level=1 - 1e-9).rows
    assert median.low <= rows["pay"].median() <= median.high


def test_sets_of_one_value_say_what_uniform_would() -> None:
    method = sf.SubsetResponse(rho1="1/50", rho2="1/2")
    rng = np.random.default_rng(1)
    source = pa.table(
        {"v": np.concatenate([np.zeros(9_900, dtype=int), rng.integers(1, 6, 100)]), "q": np.zeros(10_000, dtype=int)}
    )
    prepared = prepare(source, roles=sf.Roles(sensitive="v", quasi=["q"]), method=method, secret=Secret.from_seed(1))
    assert set(prepared.planned.public.channel.members.sum(axis=1)) == {1}
    assert any("uniform" in note for note in prepared.report()["notes"])


@pytest.mark.parametrize(
    ("mode", "digest"),
    [
        ("strict", "61ce15e3b06a0c51fea3a4f743e143b9f712b60fe235b28790e42ad30de4eb70"),
        ("paper", "1cab1d35fd3549fa983a4ff03ff992519ca0bb00fef00567521d8fa60fddcd9c"),
    ],
)
def test_one_value_in_sub_tables_is_what_it_was_before_there_were_sets(mode: Any, digest: str) -> None:
    """Cells in their order: the digests are of the present stream; sets change nothing of it."""
    method = sf.SmallDomain(**RHOS, mode=mode, report="value")
    release = sf.publish(table(), roles=ROLES, method=method, seed=1307)
    data = pq.read_table(release.path / "data.parquet")
    found = hashlib.sha256()
    for name in data.schema.names:
        found.update(name.encode())
        found.update(repr(data[name].to_pylist()).encode())
    assert found.hexdigest() == digest


def test_too_many_values_are_refused_with_the_way_out() -> None:
    source = pa.table({"v": np.arange(MOST_VALUES + 1), "q": np.zeros(MOST_VALUES + 1, dtype=int)})
    with pytest.raises(PlanError, match="small-domain"):
        prepare(
            source,
            roles=sf.Roles(sensitive="v", quasi=["q"]),
            method=sf.SubsetResponse(**RHOS),
            secret=Secret.from_seed(1),
        )


def test_a_column_of_the_added_name_is_refused() -> None:
    source = table().append_column("Pay_Set", pa.array(np.zeros(ROWS, dtype=int)))
    with pytest.raises(SpecError, match="pay_set"):
        sf.publish(source, roles=sf.Roles(sensitive="pay", rest="quasi"), method=sf.SubsetResponse(**RHOS), seed=1)
