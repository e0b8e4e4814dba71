"""Tools that somebody might pick instead, on the same table in the same run: seconds of whole processes.

    python -m benchmarks --only others --rows 100000

Each does a part of what a release does, and promises something else: docs/performance.md says what. They are installed
from the package index (`others.txt`) into an environment beside the tables; where that fails the reason is printed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_publish import publish, source
from benchmarks.measure import SFUMATO, Row, run

READ = """
import sys, warnings
warnings.simplefilter("ignore")
import pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
"""
LOCAL_REPORTS = """
import numpy as np, pickle
from multi_freq_ldpy.pure_frequency_oracles.{module} import {module}_Client, {module}_Aggregator_MI
values, epsilon = table["occupation"].to_numpy(), float(np.log(2.4))
reports = [{module}_Client(int(value), 50, epsilon) for value in values]
pickle.dump(reports, open(sys.argv[2], "wb"))
print({module}_Aggregator_MI(reports, 50, epsilon)[:3])
"""
CLASSES = """
import anonypy
frame = table.to_pandas()
quasi = [name for name in frame.columns if name != "occupation"]
frame["occupation"] = frame["occupation"].astype("category")
import pandas
pandas.DataFrame(anonypy.Preserver(frame, quasi, "occupation").anonymize_l_diversity(k=6, l=6)).to_csv(sys.argv[2])
"""
NOISY_COUNTS = """
import opendp.prelude as dp
dp.enable_features("contrib")
counted = (
    (dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance())
    >> dp.t.then_count_by_categories(categories=list(range(50)), null_category=False)
    >> dp.m.then_laplace(scale=1.0)
)
print(counted(table["occupation"].to_pylist())[:3])
"""
NOISY_SQL = """
import snsql
columns = {name: {"type": "int", "lower": 0, "upper": 100} for name in table.column_names}
columns["row"] = {"type": "int", "private_id": True}
frame = table.to_pandas()
frame["row"] = range(len(frame))
meta = {"": {"D": {"T": {"row_privacy": False, "rows": len(frame), **columns}}}}
reader = snsql.from_df(frame, privacy=snsql.Privacy(epsilon=1.0, delta=1e-6), metadata=meta)
print(reader.execute("SELECT occupation, COUNT(*) AS n FROM D.T GROUP BY occupation")[:3])
"""
COUNTS = "SELECT occupation, COUNT(*) AS n FROM release GROUP BY occupation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program of another package, and the method of ours beside which its time is shown."""

    name: str
    does: str
    code: str
    beside: str
    asks: bool = False  # it answers, and publishes no table


TOOLS = (
    Tool(
        name="multi-freq-ldpy",
        does="GRR reports and their histogram",
        code=LOCAL_REPORTS.format(module="GRR"),
        beside="uniform",
    ),
    Tool(
        name="multi-freq-ldpy",
        does="subset reports and their histogram",
        code=LOCAL_REPORTS.format(module="SS"),
        beside="subset-response",
    ),
    Tool(name="anonypy", does="l-diverse classes (l = 6)", code=CLASSES, beside="l-diversity"),
    Tool(name="opendp", does="noisy counts by value", code=NOISY_COUNTS, beside="uniform", asks=True),
    Tool(name="smartnoise-sql", does="noisy counts by value, SQL", code=NOISY_SQL, beside="uniform", asks=True),
)


def environment(folder: Path) -> str:
    """The Python that has the other tools; made once per folder."""
    place = folder / "others"
    python = place / "bin" / "python"
    if not python.exists():
        run((sys.executable, "-m", "venv", str(place)))
        wanted = str(Path(__file__).with_name("others.txt"))
        run((str(python), "-m", "pip", "install", "--quiet", "pyarrow", "-r", wanted))
    return str(python)


def rows(folder: Path, *, n: int) -> list[Row]:
    """Seconds of each tool, and of sfumato for the same part: publishing, or one question to what is published."""
    try:
        python = environment(folder)
    except RuntimeError as error:
        return [Row(name="others: not installed", value=0.0, unit="", note=str(error)[-160:])]
    table, found = source(folder, n), []
    for tool in TOOLS:
        release = folder / f"others-{tool.beside}"
        ours = publish(table, release, tool.beside)
        if tool.asks:
            ours = run((*SFUMATO, "query", str(release), COUNTS))
        name, what = f"others: {tool.name}, {tool.does}", "asked" if tool.asks else "published"
        try:
            theirs = run((python, "-c", READ + tool.code, str(table), str(folder / "others-out")))
        except RuntimeError as error:
            found.append(Row(name=name, value=float("nan"), unit="s", note=str(error)[-160:]))
            continue
        note = f"{theirs.cpu_seconds:.1f} s of processor, {theirs.peak_mib:.0f} MiB; {tool.beside} {what} "
        note += f"{ours.seconds:.2f} s, {ours.cpu_seconds:.1f} s of processor, {ours.peak_mib:.0f} MiB"
        found.append(Row(name=name, value=theirs.seconds, unit="s", note=note))
    return found
