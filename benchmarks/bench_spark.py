"""Publishing on Spark beside plain Spark: read, shuffle by ranges of a random key, write; same cores, same memory."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bench_publish import SECONDS, source
from benchmarks.measure import Row, Run, failed, python

BUDGET = 2.0
START = """
import json, os, sys, time, warnings
warnings.simplefilter("ignore")
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
session = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.memory", "3g").config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    .config("spark.log.level", "ERROR")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536").config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
session.range(1000).count()  # Spark has started; its start is not counted
began = time.perf_counter()
"""
END = """
print(json.dumps({"seconds": time.perf_counter() - began}))
session.stop()
"""
PLAIN = """
from pyspark.sql import functions
table = session.read.parquet(sys.argv[1])
parts = max(2, -(-table.count() // 4_000_000))
table.repartitionByRange(parts, functions.rand()).write.mode("overwrite").parquet(sys.argv[2])
"""
OURS = """
import sfumato as sf
from sfumato.engines.spark.table import SparkEngine
quasi = "age,gender,education,marital,race,workclass,country,salary".split(",")
sf.publish(
    sys.argv[1], sys.argv[2], roles=sf.Roles(sensitive="occupation", quasi=quasi),
    method=sf.UniformPerturbation(rho1="1/13", rho2="1/6"), engine=SparkEngine(session=session), force=True,
)
"""


def rows(folder: Path, *, n: int) -> list[Row]:
    """Seconds of plain Spark, and the ratio of publishing by `uniform` to it; nothing where Spark is not installed."""
    name = f"publish uniform on Spark, {n:,} rows"
    if find_spec("pyspark") is None or (shutil.which("java") is None and "JAVA_HOME" not in os.environ):
        return [Row(name=f"{name}: not measured, pyspark or Java is missing", value=0.0, unit="")]
    table = source(folder, n)

    def timed(code: str, out: str) -> Run:
        return python(START + code + END, table, folder / out)

    try:
        plain, ours = (done.result["seconds"] for done in (timed(PLAIN, "spark-plain"), timed(OURS, "spark-uniform")))
    except RuntimeError as error:
        return [failed(name, error)]
    note = f"{ours:.1f} s, plain Spark {plain:.1f} s"
    return [Row(name=name, value=ours / plain, unit="x", budget=BUDGET if n in SECONDS else None, note=note)]
