"""Odd tables on Spark: the cells, plans and refusals of the local engine."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.engines.source import Source, paths_of
from sfumato.engines.spark.session import plainly
from sfumato.engines.spark.table import SparkEngine
from sfumato.errors import DataError, EngineError, SpecError
from tables import DISEASES, people

METHOD = sf.SmallDomain(rho1="1/5", rho2="1/3")
UNTOUCHED = ["n", "a.b", "tick`s", 'quote"d', "person", "amount", "seen", "day", "raw", "real", "kind"]
ROWS = 600


def odd(rows: int = ROWS) -> pa.Table:
    """Names that SQL must quote, nulls, decimals, times with a zone, bytes, odd numbers, a dictionary."""
    rng = np.random.default_rng(8)
    number, reals = range(rows), [0.0, -0.0, float("inf"), -1.5, None]
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    noon = datetime.datetime(1999, 12, 31, 12, tzinfo=zone)
    kinds = pa.array([None if k % 5 == 0 else f"kind {k % 3}" for k in number]).dictionary_encode()
    return pa.table(
        {
            "n": pa.array(number, pa.int64()),
            "a.b": pa.array([None if k % 3 == 0 else k % 7 for k in number], pa.int8()),
            "tick`s": [None if k % 4 == 0 else "`" * (k % 3) for k in number],
            'quote"d': [k % 2 == 0 for k in number],
            "person": [f"p {k}" for k in number],
            "amount": pa.array([Decimal(k).scaleb(-3) if k % 6 else None for k in number], pa.decimal128(20, 3)),
            "seen": pa.array([noon + datetime.timedelta(hours=k) for k in number], pa.timestamp("us", "Asia/Tokyo")),
            "day": pa.array([datetime.date(1600, 2, 29) if k % 2 else None for k in number]),
            "raw": pa.array([bytes([k % 256, 0]) for k in number], pa.binary()),
            "real": [reals[k % len(reals)] for k in number],
            "kind": kinds,
            "disease": np.array(DISEASES)[rng.integers(0, len(DISEASES), rows)],
        }
    )


@pytest.mark.slow
def test_odd_cells_and_uneven_files_come_through_as_locally(spark: Any, tmp_path: Path) -> None:
    """Files without rows and with one beside one with nearly all: empty and skewed partitions."""
    table, folder = odd(), tmp_path / "source"
    folder.mkdir()
    for name, start, rows in (("a", 0, 0), ("b", 0, 1), ("c", 1, ROWS - 2), ("d", ROWS - 1, 1), ("e", 0, 0)):
        pq.write_table(table.slice(start, rows), folder / f"{name}.parquet", row_group_size=250)
    roles = sf.Roles(sensitive="disease", insensitive=UNTOUCHED)
    engine = SparkEngine(session=spark, rows_a_part=200, batch_rows=100)
    assert engine.open(folder.as_uri()).columns == engine.open(folder).columns
    found = sf.publish(folder, roles=roles, method=METHOD, engine=engine, seed=4)
    local = sf.publish(folder, roles=roles, method=METHOD, engine=LocalEngine(), seed=4)
    assert found.plan == local.plan
    assert [c.model_dump() for c in found.manifest.columns] == [c.model_dump() for c in local.manifest.columns]
    assert _untouched(found) == _untouched(local)


def _untouched(release: sf.Release) -> pa.Table:
    parts = [pq.read_table(release.path / name) for name in release.manifest.data_files]
    return pa.concat_tables(parts).select(UNTOUCHED).sort_by("n").combine_chunks()


def test_reading_options_of_csv_name_the_way_out(tmp_path: Path) -> None:
    for field, given in (("encoding", "latin-1"), ("null", ("-",)), ("decimal", ","), ("types", {"a": "text"})):
        with pytest.raises(SpecError, match=f"--{field} is for the local engine; make the table Parquet first"):
            SparkEngine().open(Source(tmp_path / "t.csv", **{field: given}))


def test_a_file_address_is_that_file(tmp_path: Path) -> None:
    """So that a release is not written into the folder it is made from."""
    pq.write_table(people(), tmp_path / "my people.parquet")
    address = (tmp_path / "my people.parquet").as_uri()
    assert paths_of(address) == (tmp_path / "my people.parquet",)
    options = ("--sa", "disease", "--rest", "drop", "--rho1", "1/5", "--rho2", "1/3", "--engine", "spark")
    done = sfumato("publish", tmp_path.as_uri(), tmp_path / "out", *options)
    assert done.code == 2
    assert "lie in each other" in done.err
    with pytest.raises(SpecError, match="this machine"):
        paths_of("file://elsewhere/people.parquet")


@pytest.mark.slow
def test_a_store_that_spark_cannot_read_is_one_line(spark: Any) -> None:
    for address in ("s3a://bucket/people.parquet", "gs://bucket/people", "abfss://b@a.dfs.core.windows.net/people.csv"):
        with pytest.raises(EngineError, match="no connector") as said:
            SparkEngine(session=spark).open(address)
        assert "\n" not in str(said.value)


def test_a_full_disk_of_spark_is_said() -> None:
    errors = pytest.importorskip("pyspark.errors")
    with pytest.raises(EngineError, match="disk of Spark is full"), plainly("Spark failed"):
        raise errors.PySparkException("java.io.IOException: No space left on device")


def test_people_in_a_column_with_a_name_of_ours_are_refused() -> None:
    table = people().rename_columns(["__order__", "number", "age", "sex", "disease"])
    roles = sf.Roles(sensitive="disease", quasi=["age"], person="__order__", rest="drop", max_rows_per_person=1)
    with pytest.raises(DataError, match='begin with "__" are taken'):
        sf.publish(table, roles=roles, method=METHOD)
