"""One Spark session for the tests of this folder, or why there is none; a fixture that yields each engine."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.engines.contract import Engine
from sfumato.engines.duckdb.table import LocalEngine
from spark_here import BRIEF, why_no_spark

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session keeps its event log and everything it spills."""
    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    (folder / "local").mkdir()
    return folder


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[Any]:
    """Spark with two cores that tries a task four times, cuts small files, and keeps an event log."""
    reason = why_no_spark()
    if reason:
        pytest.skip(reason)
    settings = {
        "spark.driver.extraJavaOptions": BRIEF,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (spark_folder / "events").as_uri(),
        "spark.local.dir": str(spark_folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.maxPartitionBytes": "4000",  # several partitions of a table of a thousand rows
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.csv.parser.columnPruning.enabled": "false",
        "spark.python.worker.faulthandler.enabled": "false",
    }
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(str(ROOT / part) for part in ("src", "tests")))
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2,4]").appName("sfumato tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn, cutting a table of a thousand rows into several batches, partitions and parts."""
    if request.param == "local":
        return LocalEngine(batch_rows=311)
    from sfumato.engines.spark.table import SparkEngine

    return SparkEngine(session=request.getfixturevalue("spark"), rows_a_part=400)
