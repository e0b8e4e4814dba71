"""Types survive: a column that no method touches leaves as it came; a randomised one keeps its type."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

N = 400
_rng = np.random.default_rng(3)
_pick = _rng.integers(0, 6, N)
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=31 * i) for i in range(6)]

COLUMNS: dict[str, pa.Array] = {
    "int8": pa.array(_pick - 3, pa.int8()),
    "int64": pa.array((_pick - 3) * 2**55, pa.int64()),
    "uint16": pa.array(_pick * 10_000, pa.uint16()),
    "string": pa.array([f"väl{i}" for i in _pick]),
    "large_string": pa.array([f"v,\"{i}'" for i in _pick], pa.large_string()),
    "dictionary": pa.array([f"d{9 - i}" for i in _pick]).dictionary_encode(),
    "date": pa.array([DAYS[i] for i in _pick], pa.date32()),
    "timestamp": pa.array([datetime.datetime(2020, 1, 1 + i, 12, i, 1) for i in _pick], pa.timestamp("us")),  # noqa: DTZ001
    "boolean": pa.array(_pick % 2 == 0),
    "decimal": pa.array([Decimal(f"{i}.{i}5") for i in _pick], pa.decimal128(9, 2)),
    "double": pa.array(_pick / 4),
}


def _plain(array: pa.ChunkedArray | pa.Array) -> list[object]:
    """The values, whatever the encoding."""
    return array.to_pylist()


def _roles(sensitive: str) -> sf.Roles:
    return sf.Roles(sensitive=sensitive, insensitive=[*(c for c in COLUMNS if c != sensitive), "row"])


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table({**COLUMNS, "row": pa.array(np.arange(N))})


def test_untouched_columns_leave_as_they_came(table: pa.Table, tmp_path: Path) -> None:
    sf.publish(table, roles=_roles("string"), method=sf.UniformPerturbation(rho1="1/3", rho2="1/2")).save(
        tmp_path / "o"
    )
    released = _read(tmp_path / "o").sort_by("row")
    for name in COLUMNS:
        if name != "string":
            assert _plain(released[name]) == _plain(table[name]), name
            kept = table.schema.field(name).type
            wanted = kept.value_type if pa.types.is_dictionary(kept) else kept
            wanted = pa.string() if pa.types.is_large_string(wanted) else wanted
            got = released.schema.field(name).type
            assert (got.value_type if pa.types.is_dictionary(got) else got) == wanted, name


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "boolean"])
@pytest.mark.parametrize(
    "method", [sf.UniformPerturbation(rho1="1/3", rho2="1/2"), sf.Anatomy(l=2)], ids=["uniform", "anatomy"]
)
def test_sensitive_columns_keep_values_and_can_be_asked(
    name: str, method: object, table: pa.Table, tmp_path: Path
) -> None:
    sf.publish(table, roles=_roles(name), method=method).save(tmp_path / "o")
    release = sf.open_release(tmp_path / "o")
    answer = release.sql(f"SELECT {name}, COUNT(*) AS n FROM release GROUP BY {name}").to_arrow()
    assert set(answer[name].to_pylist()) == set(_plain(table[name]))


def _read(release: Path) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(release / "data.parquet")
