"""Small-domain releases through the public interface: bundle, SQL, compound values, the custodian's plan."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import DataError, PlanError, QueryError, SpecError
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

ROWS, VALUES = 12_000, 30


def people(rows=ROWS, *, by_value=False):
    """Made-up people: job (30 values, top 6 %), degree (4), sex, age; sorted by job if asked."""
    rng = np.random.default_rng(3)
    weight = 0.95 ** np.arange(VALUES)
    job = rng.choice(VALUES, rows, p=weight / weight.sum())
    if by_value:
        job = np.sort(job)
    degree = np.minimum(3, (job // 8 + rng.integers(0, 2, rows)) % 4)
    return pa.table(
        {
            "job": pa.array([f"job {j:02}" for j in job]),
            "degree": pa.array(degree, pa.int8()),
            "sex": pa.array(np.where(rng.random(rows) < 0.4, "f", "m")),
            "age": pa.array(rng.integers(18, 70, rows), pa.int16()),
        }
    )


METHOD = sf.SmallDomain(rho1="1/8", rho2="1/3", report="value")


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def release(table, tmp_path_factory):
    roles = sf.Roles(sensitive="job", quasi=["sex", "age"], insensitive=["degree"])
    return sf.publish(table, tmp_path_factory.mktemp("r") / "out", roles=roles, method=METHOD, seed=11)


@pytest.fixture(scope="module")
def pairs(table, tmp_path_factory):
    roles = sf.Roles(sensitive=("job", "degree"), quasi=["sex", "age"])
    return sf.publish(table, tmp_path_factory.mktemp("r") / "out", roles=roles, method=METHOD, seed=12)


def one(release, sql):
    rows = release.sql(sql).to_arrow().to_pylist()
    assert len(rows) == 1
    return rows[0]


def test_the_bundle_states_what_a_reader_needs_and_nothing_more(release):
    stated = json.loads((release.path / "release.json").read_text())
    assert set(stated["parameters"]) == {"rho1", "rho2", "mode", "sets"}
    assert set(stated["law"]) == {"name", "values", "domains", "gammas", "sizes"}
    assert stated["guarantee"]["trust"] == "proved"
    rows = pq.read_table(release.path / "data.parquet")
    assert rows.num_rows == ROWS
    assert np.bincount(rows["sub_table"].to_numpy()).tolist() == stated["law"]["sizes"]
    jobs = next(c for c in stated["columns"] if c["name"] == "job")["domain"]
    for i, domain in enumerate(stated["law"]["domains"]):
        shown = set(rows.filter(pa.compute.equal(rows["sub_table"], i))["job"].to_pylist())
        assert shown == {jobs[v] for v in domain}


def test_other_columns_are_untouched(release, table):
    rows = pq.read_table(release.path / "data.parquet")
    for name in ("sex", "age", "degree"):
        assert sorted(rows[name].to_pylist()) == sorted(table[name].to_pylist())


def test_totals_over_the_domain_are_exact_and_add_up(release):
    answer = release.sql("SELECT job, COUNT(*) AS n FROM release GROUP BY job").to_arrow()
    assert answer.num_rows == VALUES
    assert sum(answer["n"].to_pylist()) == pytest.approx(ROWS, abs=1e-6)
    everyone = one(release, "SELECT COUNT(*) AS n FROM release")
    assert (everyone["n"], everyone["n_se"]) == (ROWS, 0)


def test_estimates_lie_near_the_truth(release, table):
    """Six standard errors: false alarm 2e-9 for each of 30 totals, and the seed is fixed."""
    job = np.array(table["job"].to_pylist())
    for row in (
        release.sql("SELECT job, COUNT(*) AS n FROM release WHERE sex = 'f' GROUP BY job").to_arrow().to_pylist()
    ):
        true = ((job == row["job"]) & (np.array(table["sex"].to_pylist()) == "f")).sum()
        assert abs(row["n"] - true) < 6 * row["n_se"]


def test_a_union_is_the_sum_of_its_parts(release):
    parts = [one(release, f"SELECT COUNT(*) AS n FROM release WHERE job = 'job {j:02}'")["n"] for j in (1, 5, 20)]
    union = one(release, "SELECT COUNT(*) AS n FROM release WHERE job IN ('job 01', 'job 05', 'job 20')")
    assert union["n"] == pytest.approx(sum(parts), abs=1e-6)


def test_a_value_outside_the_domain_is_refused(release):
    with pytest.raises(QueryError, match="job 1"):
        release.sql("SELECT COUNT(*) FROM release WHERE job = 'job 1'")


def test_a_declared_value_that_does_not_occur_counts_zero(table, tmp_path):
    roles = sf.Roles(sensitive="job", quasi=["sex", "age", "degree"])
    domain = [f"job {j:02}" for j in range(VALUES)] + ["spy"]
    release = sf.publish(table, tmp_path / "out", roles=roles, method=METHOD, seed=1, domains={"job": domain})
    answer = one(release, "SELECT COUNT(*) AS n FROM release WHERE job = 'spy' AND sex = 'f'")
    assert (answer["n"], answer["n_se"], answer["n_low"], answer["n_high"]) == (0, 0, 0, 0)


def test_two_sensitive_columns_are_one_value_and_two_columns(pairs, table):
    degree, job = table["degree"].to_numpy(), np.array(table["job"].to_pylist())
    assert max(len(d) for d in pairs.plan.law.domains) < len(pairs.domains[0])
    for where, rows in (
        ("job = 'job 03'", job == "job 03"),
        ("degree = 2", degree == 2),
        ("degree >= 1 AND job IN ('job 03', 'job 04')", (degree >= 1) & np.isin(job, ["job 03", "job 04"])),
        ("degree = 2 OR job = 'job 09'", (degree == 2) | (job == "job 09")),
        ("degree = 2 AND sex = 'f'", (degree == 2) & (np.array(table["sex"].to_pylist()) == "f")),
    ):
        answer = one(pairs, f"SELECT COUNT(*) AS n FROM release WHERE {where}")
        assert answer["n_se"] > 0
        assert abs(answer["n"] - rows.sum()) < 6 * answer["n_se"], where
    shown = pq.read_table(pairs.path / "data.parquet", columns=["job", "degree", "sub_table"]).to_pylist()
    values = pairs.domains[0].values
    allowed = [{values[v] for v in domain} for domain in pairs.plan.law.domains]
    assert all((r["job"], r["degree"]) in allowed[r["sub_table"]] for r in shown)


def test_mean_of_a_sensitive_column_of_a_pair(pairs, table):
    answer = one(pairs, "SELECT AVG(degree) AS d FROM release WHERE sex = 'f'")
    true = table["degree"].to_numpy()[np.array(table["sex"].to_pylist()) == "f"].mean()
    assert abs(answer["d"] - true) < 6 * answer["d_se"]


def test_sub_tables_do_not_follow_the_file(table, tmp_path):
    """In a file sorted by job, the records of one job in a sub-table are spread over the job's whole run."""
    sorted_people = people(by_value=True).append_column("line", pa.array(np.arange(ROWS)))
    roles = sf.Roles(sensitive="job", quasi=["sex", "age"], insensitive=["degree", "line"])
    release = sf.publish(sorted_people, tmp_path / "out", roles=roles, method=METHOD, seed=5)
    rows = pq.read_table(release.path / "data.parquet")
    line, part = rows["line"].to_numpy(), rows["sub_table"].to_numpy()
    job = np.array(sorted_people["job"].to_pylist())[line]
    assert np.abs(np.corrcoef(line, np.arange(ROWS))[0, 1]) < 0.1  # 11 standard errors
    first = np.array([line[job == j].min() for j in np.unique(job)])
    length = np.array([(job == j).sum() for j in np.unique(job)])
    for k, j in enumerate(np.unique(job)):
        for i in np.unique(part[job == j]):
            here = (line[(job == j) & (part == i)] - first[k]) / length[k]
            assert abs(here.mean() - 0.5) < 6 * np.sqrt(1 / 12 / here.size) + 1 / length[k]


def test_plan_report_matches_what_is_published(table, release):
    roles = sf.Roles(sensitive="job", quasi=["sex", "age"], insensitive=["degree"])
    report = prepare(table, roles=roles, method=METHOD, secret=Secret.from_seed(11)).report()
    assert [t["size"] for t in report["sub_tables"]] == list(release.plan.law.sizes)
    assert report["method"] == "small-domain"
    assert report["unprotected"] == {"values": [], "share": 0.0, "posterior": None}
    assert report["retention"] > report["uniform_retention"]
    totals = release.sql("SELECT job, COUNT(*) AS n FROM release GROUP BY job").to_arrow()
    ratio = np.array(totals["n_se"].to_pylist()) / np.array(report["expected_error"]["total"])
    assert np.all((ratio > 0.8) & (ratio < 1.25))


@pytest.mark.parametrize(
    ("method", "error", "match"),
    [
        (sf.SmallDomain(rho1="1/10000", rho2="1/3"), PlanError, "rho1"),
        (sf.SmallDomain(rho1="1/8", rho2="125000001/1000000000"), PlanError, "gamma"),
    ],
)
def test_what_cannot_be_reached_is_refused(table, tmp_path, method, error, match):
    with pytest.raises(error, match=match):
        sf.publish(
            table,
            tmp_path / "out",
            roles=sf.Roles(sensitive="job", quasi=["sex", "age", "degree"]),
            method=method,
            seed=1,
        )


def test_missing_sensitive_values_are_refused_or_a_value(table, tmp_path):
    jobs = table["job"].to_pylist()
    holes = table.set_column(0, "job", pa.array([None if i % 20 == 0 else j for i, j in enumerate(jobs)]))
    roles = sf.Roles(sensitive="job", quasi=["sex", "age", "degree"])
    with pytest.raises(DataError):
        sf.publish(holes, tmp_path / "out", roles=roles, method=METHOD, seed=1)
    release = sf.publish(holes, tmp_path / "out", roles=roles, method=METHOD, seed=1, null_as_value=True)
    answer = one(release, "SELECT COUNT(*) AS n FROM release WHERE job IS NULL")
    assert abs(answer["n"] - ROWS / 20) < 6 * answer["n_se"]


def test_a_column_named_like_the_sub_table_is_refused(table, tmp_path):
    clash = table.rename_columns(["job", "sub_table", "sex", "age"])
    with pytest.raises(SpecError, match="sub_table"):
        sf.publish(
            clash,
            tmp_path / "out",
            roles=sf.Roles(sensitive="job", quasi=["sub_table", "sex", "age"]),
            method=METHOD,
            seed=1,
        )
