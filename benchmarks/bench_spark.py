"""Publishing on Spark against plain Spark: read, shuffle by ranges of a random key, write; same cores, same memory."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bench_publish import METHODS, source
from benchmarks.measure import Row, Run, folder_mib, median, python

TARGET = 1.5
CHOSEN = ("uniform",)
MEMORY = "3g"  # of the one Java process; Python workers come on top

START = """
import json, os, sys, threading, time, warnings
warnings.simplefilter("ignore")
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
began = time.perf_counter()
session = (
    SparkSession.builder.master(f"local[{sys.argv[3]}]")
    .config("spark.driver.memory", sys.argv[4]).config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    .config("spark.log.level", "ERROR")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536").config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
session.range(1000).count()


def below():
    # this process and all below it, Java and Python workers included: (ticks of processor, pages of memory) of each
    found = {}
    for place in os.listdir("/proc"):
        try:
            with open(f"/proc/{place}/stat") as file:
                words = file.read().rpartition(")")[2].split()
            found[int(place)] = (int(words[1]), sum(int(word) for word in words[11:15]), int(words[21]))
        except (OSError, ValueError):
            pass
    for process in found:
        above = process
        while above in found and above != os.getpid():
            above = found[above][0]
        if above == os.getpid():
            yield found[process][1:]


def processor():
    return sum(ticks for ticks, _ in below()) / os.sysconf("SC_CLK_TCK")


def watch():
    # pages that processes share are counted for each: the peak is an upper limit
    global peak
    while True:
        peak = max(peak, sum(pages for _, pages in below()) * os.sysconf("SC_PAGE_SIZE") / 2**20)
        time.sleep(0.5)


peak = 0.0
threading.Thread(target=watch, daemon=True).start()
started, used = time.perf_counter(), processor()
"""
END = """
done = time.perf_counter()
figures = {"started": started - began, "worked": done - started, "processor": processor() - used, "peak": peak}
print(json.dumps(figures))
session.stop()
"""
PLAIN = (
    START
    + """
from pyspark.sql import functions
table = session.read.parquet(sys.argv[1])
rows = table.count()
parts = max(int(sys.argv[3]), -(-rows // 4_000_000))
table.repartitionByRange(parts, functions.rand()).write.mode("overwrite").parquet(sys.argv[2])
"""
    + END
)
SORTED = PLAIN.replace("repartitionByRange(parts, functions.rand())", "orderBy(functions.rand())")
OURS = (
    START
    + """
import sfumato as sf
from sfumato.engines.spark.table import SparkEngine
from sfumato.methods.specifications import build
options = dict(pair.split("=", 1) for pair in sys.argv[6:])
quasi = "age,gender,education,marital,race,workclass,country,salary".split(",")
sf.publish(
    sys.argv[1], sys.argv[2], roles=sf.Roles(sensitive="occupation", quasi=quasi),
    method=build(sys.argv[5], options), engine=SparkEngine(session=session), force=True,
)
"""
    + END
)


def _options(method: str) -> list[str]:
    """The method's own options of bench_publish, as name=text."""
    words = METHODS[method][1][4:]
    return [f"{name[2:].replace('-', '_')}={text}" for name, text in zip(words[::2], words[1::2], strict=True)]


def rows(folder: Path, *, n: int, threads: int, repeat: int, chosen: tuple[str, ...]) -> list[Row]:
    """Seconds of plain Spark without its start, and for each method the ratio to it."""
    if find_spec("pyspark") is None or (shutil.which("java") is None and "JAVA_HOME" not in os.environ):
        return [Row(name="spark: not measured, pyspark or Java is missing", value=0.0, unit="")]
    table = source(folder, n)

    def measured(code: str, out: str, *more: str) -> tuple[float, Run]:
        runs = []
        for _ in range(repeat):
            shutil.rmtree(folder / out, ignore_errors=True)
            runs.append(python(code, table, folder / out, threads, MEMORY, *more))
        return median([done.result["worked"] for done in runs]), runs[-1]

    plain, last = measured(PLAIN, "plain-spark")
    before = last.result["processor"]
    size = folder_mib(folder / "plain-spark")
    note = f"{before:.1f} s of processor; start of Spark, {last.result['started']:.1f} s, not counted; {size:.0f} MiB"
    found = [Row(name=f"spark: read, range shuffle, write of {n:,} rows", value=plain, unit="s", note=note)]
    full, _ = measured(SORTED, "sorted-spark")
    found.append(Row(name="spark: the same in one order (orderBy)", value=full / plain, unit="x"))
    for method in chosen or CHOSEN:
        ours, last = measured(OURS, f"spark-{method}", method, *_options(method))
        more, size = last.result["processor"] / before, folder_mib(folder / f"spark-{method}")
        note = f"{ours:.1f} s, verified; processor {more:.2f} x; {ours / full:.2f} x orderBy; {size:.0f} MiB; "
        note += f"memory of all processes at most {last.result['peak']:.0f} MiB"
        found.append(Row(name=f"spark: publish {method}", value=ours / plain, unit="x", target=TARGET, note=note))
    return found
