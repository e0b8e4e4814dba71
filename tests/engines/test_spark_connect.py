"""Through a server of Spark Connect, started here: the plans, counts and answers of the local engine; or one line."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from connect_session import METHODS, QUESTION, ROLES
from forging import verified
from same_numbers import assert_same_numbers
from spark_here import BRIEF, why_no_spark
from tables import ROLES as OPTIONS
from tables import people

SCRIPT = Path(__file__).parents[1] / "connect_session.py"
NO_CLIENT = find_spec("grpc") is None or find_spec("grpc_status") is None


@pytest.mark.slow
@pytest.mark.skipif(NO_CLIENT, reason="the client of Spark Connect is not installed (sfumato[spark])")
@pytest.mark.skipif(why_no_spark() is not None, reason=str(why_no_spark()))
def test_a_server_publishes_and_answers_as_the_local_engine_does(tmp_path: Path) -> None:
    table, source = people(by_disease=True), tmp_path / "people.parquet"
    pq.write_table(table, source, row_group_size=150)
    path = os.pathsep.join(str(Path(__file__).parents[i] / part) for i, part in ((2, "src"), (1, "")))
    conf = {
        "spark.driver.extraJavaOptions": BRIEF,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.maxPartitionBytes": "4000",
        "spark.sql.files.openCostInBytes": "0",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path / "local"),
    }
    words = " ".join(f"--conf '{name}={value}'" for name, value in conf.items())
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell"}
    (tmp_path / "out").mkdir()
    command = [sys.executable, str(SCRIPT), str(source), "out"]  # a relative folder: tasks run elsewhere
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "UserWarning" not in done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["connect"] is True
    older = table.filter(pc.greater_equal(table["age"], 40))
    for name, rows in (("anatomy", table), ("uniform", older)):
        release = sf.open_release(tmp_path / "out" / name)
        reference = sf.publish(rows, roles=ROLES, method=METHODS[name], seed=5)
        assert release.plan == reference.plan
        assert_same_numbers(json.loads(found[name])["rows"], release.sql(QUESTION).rows())
        assert verified(tmp_path / "out" / name)
        parts = [pq.read_table(release.path / part) for part in release.manifest.data_files]
        numbers = pa.concat_tables(parts)["number"].to_pylist()
        assert sorted(numbers) == sorted(rows["number"].to_pylist())
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == ["anatomy", "uniform"]


@pytest.mark.skipif(NO_CLIENT or find_spec("pyspark") is None, reason="pyspark[connect] is not installed")
def test_a_server_that_is_not_there_is_one_line_at_once(tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address, code, said in (
        (f"sc://127.0.0.1:{port}", 1, "no Spark Connect server answers"),
        ("http://127.0.0.1", 2, "sc://host:port"),
        ("sc://127.0.0.1:99999", 1, "no Spark Connect server answers"),
    ):
        options = ("--engine", "spark", "--remote", address, "--rho1", "1/5", "--rho2", "1/3")
        done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *OPTIONS, *options)
        assert done.code == code
        assert said in done.err
        assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
