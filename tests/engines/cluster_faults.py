"""Publish on a cluster while faults strike: MASTER SOURCE OUT FOLDER. Run by test_spark_faults.py."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import sfumato as sf
from faults import FaultyEngine
from spark_here import BRIEF
from tables import MARK


def main(master: str, source: str, out: str, marks: str) -> None:
    """A release with seed 5, an executor killed and a task copied on the way."""
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.extraJavaOptions": BRIEF,
        "spark.executor.extraJavaOptions": BRIEF,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.executor.memory": "512m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.maxPartitionBytes": "4000",
        "spark.sql.files.openCostInBytes": "0",
        "spark.default.parallelism": "2",
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.quantile": "0.2",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.minTaskRuntime": "500ms",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    engine = FaultyEngine({1: "executor", 4: "slow"}, Path(marks), session=session, rows_a_part=400, batch_rows=60)
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
    sf.publish(source, out, roles=roles, method=sf.Anatomy(l=3), engine=engine, seed=5)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
