"""A task that fails, a worker that is killed, an executor that is lost, a task that runs twice: the same bytes.

The number of faults that struck is printed (pytest -s shows it).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.spark.table import SparkEngine
from sfumato.errors import DataError, SfumatoError
from tables import MARK, people
from two_workers import two_workers

pytestmark = pytest.mark.slow
ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
SETTING = {"rows_a_part": 400, "batch_rows": 60}
METHODS = {"uniform": sf.UniformPerturbation(rho1="1/5", rho2="1/3"), "anatomy": sf.Anatomy(l=3)}
SCRIPTS = Path(__file__).parent / "cluster_faults.py"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "people.parquet"
    pq.write_table(people(by_disease=True), file, row_group_size=150)
    return file


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def publish(source: Path, out: Path, method: str, engine: Any, seed: int = 5) -> Mapping[str, bytes]:
    sf.publish(source, out, roles=ROLES, method=METHODS[method], engine=engine, seed=seed)
    return bytes_of(out)


@pytest.fixture(scope="module")
def undisturbed(spark: Any, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The release by anatomy, whose labels are dealt to partitions, without any fault."""
    return publish(source, tmp_path_factory.mktemp("calm") / "out", "anatomy", SparkEngine(session=spark, **SETTING))


def test_failed_tasks_and_killed_workers_repeat_their_bytes(
    spark: Any, source: Path, undisturbed: Mapping[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from faults import FaultyEngine

    (tmp_path / "marks").mkdir()
    faults = {0: "raise", 2: "kill", 3: "raise"}
    engine = FaultyEngine(faults, tmp_path / "marks", session=spark, **SETTING)
    assert publish(source, tmp_path / "out", "anatomy", engine) == undisturbed
    struck = sorted(mark.name for mark in (tmp_path / "marks").iterdir())
    assert struck == ["kill-2", "raise-0", "raise-3"]
    with capsys.disabled():
        print(f"\nfaults injected: {len(struck)} (task failed: 2, worker killed: 1); bytes equal")
    left = [entry.name for entry in tmp_path.iterdir()]
    assert sorted(left) == ["marks", "out"], "no attempt is left behind"


@pytest.mark.skipif(sys.platform != "linux", reason="two workers need two loopback addresses")
def test_lost_executors_and_speculative_copies_repeat_their_bytes(
    source: Path, undisturbed: Mapping[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two workers, as on a cluster: an executor is killed in the middle of a task, another task is so slow that Spark
    starts a copy of it on the other worker, which is done first."""
    (tmp_path / "marks").mkdir()
    path = os.pathsep.join(str(Path(__file__).parents[i] / part) for i, part in ((2, "src"), (1, "")))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    (tmp_path / "cluster").mkdir()
    with two_workers(tmp_path / "cluster", environment) as master:
        command = [sys.executable, str(SCRIPTS), master, str(source), str(tmp_path / "out"), str(tmp_path / "marks")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert bytes_of(tmp_path / "out") == undisturbed
    struck = sorted(mark.name for mark in (tmp_path / "marks").iterdir())
    assert struck == ["copy-4", "executor-1", "slow-4"]
    with capsys.disabled():
        print("\nfaults injected: 2 (executor killed: 1, speculative copy: 1); bytes equal")


def test_workers_killed_while_they_write_repeat_their_bytes(
    spark: Any, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each part's first writer dies with a file begun; the same seed without faults gives the same release."""
    from faults import WRITING, FaultyEngine

    (tmp_path / "marks").mkdir()
    setting = SETTING | {"rows_a_part": 700}
    engine = FaultyEngine({WRITING: "kill"}, tmp_path / "marks", session=spark, **setting)
    disturbed = publish(source, tmp_path / "out", "uniform", engine)
    struck = len(list((tmp_path / "marks").iterdir()))
    assert struck == len(list((tmp_path / "out" / "data").iterdir())) > 1
    assert disturbed == publish(source, tmp_path / "calm", "uniform", SparkEngine(session=spark, **setting))
    with capsys.disabled():
        print(f"\nfaults injected: {struck} (worker killed while writing: {struck}); bytes equal")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["calm", "marks", "out"]


@pytest.mark.parametrize("where", [1, -1])
def test_a_task_that_always_fails_leaves_nothing(where: int, spark: Any, source: Path, tmp_path: Path) -> None:
    """While rows are randomised, and while parts are written: one line, no half release, no partial folder."""
    from faults import FaultyEngine

    setting = SETTING | {"rows_a_part": 2000}  # one part: each attempt starts a worker
    engine = FaultyEngine({where: "always"}, tmp_path / "marks", session=spark, **setting)
    (tmp_path / "marks").mkdir()
    with pytest.raises(SfumatoError, match="a task failed"):
        publish(source, tmp_path / "out", "uniform", engine)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["marks"]


def test_a_source_that_changes_between_the_passes_is_refused(spark: Any, source: Path, tmp_path: Path) -> None:
    """As many rows, other values: the file is replaced after it was counted."""
    from faults import ChangingEngine

    file = tmp_path / "people.parquet"
    pq.write_table(pq.read_table(source), file, row_group_size=150)
    with pytest.raises(DataError, match="changed"):
        publish(file, tmp_path / "out", "uniform", ChangingEngine(file, session=spark, **SETTING))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["people.parquet"]
