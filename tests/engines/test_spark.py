"""What only Spark has: its own data frames, its dialect, its logs, the ways to start it."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from forging import verified
from sfumato.errors import DataError, SpecError
from sfumato.publishing.randomness import Secret
from sfumato.query import Release
from sfumato.release.opened import OpenedRelease
from tables import MARK, ROLES, people

SETTLED = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
METHOD = sf.UniformPerturbation(rho1="1/5", rho2="1/3")
SEED = 77
RHO = ("--rho1", "1/5", "--rho2", "1/3")
DIALECT = (
    "SELECT COUNT(*) AS n FROM release WHERE TRUE",
    "SELECT sex, COUNT(*) AS n, SUM(age) AS s FROM release WHERE disease = 'flu' OR age > 50 GROUP BY sex ORDER BY sex",
    "SELECT QUANTILE_CONT(age, 0.9) AS q, MEDIAN(age) AS m, MIN(age) AS a, MAX(age) AS b FROM release WHERE sex = 'f'",
    "SELECT age // 10 AS decade, COUNT(*) AS n FROM release WHERE disease LIKE '%a%' GROUP BY decade ORDER BY decade",
    "SELECT AVG(CASE WHEN disease IN ('flu', 'cold') THEN 1 ELSE 0 END) AS s FROM release WHERE age BETWEEN 20 AND 60",
    "SELECT sex, age % 2 AS odd, COUNT(*) AS n FROM release GROUP BY CUBE (sex, odd) ORDER BY n LIMIT 5",
    "SELECT COUNT(*) FILTER (WHERE disease <> 'gout') AS n FROM release WHERE NOT (sex = 'f' AND age < 30)",
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "people.parquet"
    pq.write_table(people(by_disease=True), path, row_group_size=150)
    return path


@pytest.fixture(scope="module")
def frame_release(spark: Any, file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of a Spark DataFrame, which is the union of two others, published without naming an engine."""
    table = spark.read.parquet(str(file))
    frame = table.where("age < 40").unionAll(table.where("age >= 40"))
    out = tmp_path_factory.mktemp("frame") / "out"
    sf.publish(frame, out, roles=SETTLED, method=METHOD, seed=SEED)
    return out


@pytest.mark.slow
def test_a_spark_data_frame_is_published_where_it_is(frame_release: Path) -> None:
    release = sf.open_release(frame_release)
    assert release.manifest.data_files[0].startswith("data/part-")
    numbers = [
        n for name in release.manifest.data_files for n in pq.read_table(frame_release / name)["number"].to_pylist()
    ]
    assert sorted(numbers) == list(range(people().num_rows))
    assert verified(frame_release)


@pytest.mark.slow
@pytest.mark.usefixtures("frame_release")
def test_the_secret_is_in_no_event_log_and_on_no_disk_of_spark(spark_folder: Path) -> None:
    key = Secret.from_seed(SEED).key
    forms = [key, key.hex().encode(), base64.b64encode(key), base64.urlsafe_b64encode(key), str(list(key)).encode()]
    written = {f: f.read_bytes() for f in spark_folder.rglob("*") if f.is_file()}
    events = b"".join(data for f, data in written.items() if "events" in f.parts)
    assert b"SparkListenerJobStart" in events, "the log that is searched is there"
    assert b"MapInArrow" in events
    found = [f.name for f, data in written.items() if any(form in data for form in forms)]
    assert found == []


@pytest.mark.slow
def test_statements_in_the_dialect_of_spark(spark: Any, frame_release: Path) -> None:
    """Everything on Spark, nothing counted here: the same answers to the last digit."""
    from sfumato.engines.spark.table import SparkEngine, SparkReader

    class AllOnSpark(SparkEngine):
        def read(self, data: Any) -> SparkReader:
            return SparkReader(spark, data, most_cells=0)

    local = sf.open_release(frame_release)
    other = Release(OpenedRelease(frame_release, local.manifest, engine=AllOnSpark(session=spark)))
    for question in DIALECT:
        assert other.sql(question).to_json() == local.sql(question).to_json(), question


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_take_the_engine(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--method", "uniform", *RHO, "--seed", "1", "--engine", "spark")
    assert sfumato("publish", file, out, *ROLES, *options).code == 0
    question = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex ORDER BY sex"
    local = sfumato("query", out, question, "--format", "json")
    assert sfumato("query", out, question, "--format", "json", "--engine", "spark").out == local.out
    assert sfumato("verify", out, "--test", "--engine", "spark").out == sfumato("verify", out, "--test").out
    plans = [sfumato("plan", file, *ROLES, *options[:-2], "--json", "--engine", e).out for e in ("spark", "local")]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--master", "local[2]"), "--master goes with --engine spark"),
        (("--remote", "sc://host"), "--remote goes with --engine spark"),
        (("--engine", "spark", "--memory", "2GB"), "--memory is the local engine's"),
        (("--engine", "flink"), 'no engine "flink"; engines: local, spark'),
    ],
)
def test_options_of_the_other_engine_are_refused(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *ROLES, *RHO, *options)
    assert done.code == 2
    assert said in done.err


def test_a_store_without_renames_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="not to an address"):
        sf.publish(people(), "s3a://bucket/out", roles=SETTLED, method=METHOD)


def test_commands_that_look_at_rows_refuse_a_cluster(tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    done = sfumato("compare", tmp_path / "t.parquet", *ROLES, "--bound", "1/3", "--engine", "spark")
    assert done.code == 2
    assert "one machine" in done.err


@pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed (sfumato[spark])")
def test_missing_java_is_said_in_one_line(tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    (tmp_path / "bin").mkdir()
    environment = {k: v for k, v in os.environ.items() if k not in {"JAVA_HOME", "SPARK_REMOTE"}}
    environment |= {"PATH": str(tmp_path / "bin"), "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-m", "sfumato", "publish", "t.parquet", "out", *ROLES, "--engine", "spark"]
    done = subprocess.run(
        [*command, *RHO],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "Java 17" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_spark_cannot_read_is_said(spark: Any, tmp_path: Path) -> None:
    from sfumato.engines.spark.table import SparkEngine

    engine = SparkEngine(session=spark)
    with pytest.raises(SpecError, match="paths and Spark DataFrames"):
        engine.open(people())
    with pytest.raises(DataError, match="type array"):
        engine.open(spark.sql("SELECT array(1, 2) AS a, 1 AS b"))
    (tmp_path / "t.arrow").write_bytes(b"x")
    with pytest.raises(DataError, match="CSV and Parquet"):
        engine.open(tmp_path / "t.arrow")
