"""Releases of sets read by Spark: by the join that anybody may write, and through our own questions."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from same_numbers import assert_same_numbers
from sfumato.engines.spark.table import SparkEngine

from ..constants import SEED

ROWS = 500
RHOS = {"rho1": "1/13", "rho2": "1/6"}
DAYS = [datetime.date(1969, 12, 1) + datetime.timedelta(9 * i) for i in range(40)]
CASES = {
    "texts": (sf.SubsetResponse(**RHOS), pa.array([f"{i:02} 'é\u2713" for i in range(40)]), "'07 ''é\u2713'"),
    "one missing": (sf.SmallDomain(**RHOS, report="set"), pa.array([None, *(f"v{i:02}" for i in range(39))]), "'v07'"),
    "decimals": (
        sf.SubsetResponse(**RHOS),
        pa.array([Decimal(i - 20) / 4 for i in range(40)], pa.decimal128(12, 2)),
        "-1.25",
    ),
    "days": (sf.SubsetResponse(**RHOS, workload="prefixes"), pa.array(DAYS), f"DATE '{DAYS[7]}'"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", CASES)
def test_spark_counts_by_sets(what: str, spark: Any, tmp_path: Path) -> None:
    method, values, one = CASES[what]
    rng, out = np.random.default_rng(SEED), tmp_path / "out"
    kind = values.take(pa.array(rng.permutation(np.arange(ROWS) % len(values))))
    table = pa.table({"age": rng.integers(20, 60, ROWS), "kind": kind, "g": rng.choice(["a", "b"], ROWS)})
    roles = sf.Roles(sensitive="kind", quasi=("g", "age"))
    release = sf.publish(table, out, roles=roles, method=method, seed=SEED, null_as_value=what == "one missing")
    rows, sets = (spark.read.parquet(str(out / name)) for name in ("data.parquet", "sets.parquet"))
    counted = rows.where("age > 30").join(sets, "kind_set").groupBy("value").sum("weight").collect()
    (total,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE kind = {one} AND age > 30").rows()
    wanted = {"one missing": "v07", "decimals": Decimal("-1.25")}.get(what, values[7].as_py())
    assert {row[0]: row[1] for row in counted}[wanted] == pytest.approx(total["n"], rel=1e-9)
    assert len(counted) == len(values)
    other = sf.open_release(out, engine=SparkEngine(session=spark))
    asked = f"SELECT g, COUNT(*) AS n, SUM(age) AS a FROM release WHERE kind > {one} AND age > 30 GROUP BY g ORDER BY g"
    assert_same_numbers(other.sql(asked).rows(), release.sql(asked).rows())
