"""Types survive: a column that no method touches leaves as it came; a randomised one keeps its type."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.methods import REGISTRY

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


SPECS: dict[str, dict[str, Any]] = {
    **{name: dict(method.example.spec) for name, method in REGISTRY.items()},
    "uniform": {"rho1": "1/3", "rho2": "1/2"},
    "small-domain": {"rho1": "1/3", "rho2": "1/2", "min_size": 50},
    "anatomy": {"l": 2},
    "splu": {"gamma": 2},
    "l-diversity": {"l": 2},
    "target-distribution": {"partition_by": "sex"},
}


def _published(table: pa.Table, sensitive: str, method: str) -> sf.Release:
    """A release in which `sensitive` is the column called disease, all others but sex and area are left as they are."""
    named = table.rename_columns(["disease" if c == sensitive else c for c in table.column_names])
    roles = sf.Roles(sensitive="disease", quasi=("sex", "area"), rest="keep", insensitive=("row",))
    return sf.publish(named, roles=roles, method=REGISTRY[method].spec(**SPECS[method]), seed=1)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    some = {"sex": pa.array(np.array(["f", "m"])[_rng.integers(0, 2, N)]), "area": pa.array(_rng.integers(0, 3, N))}
    return pa.table({**COLUMNS, **some, "row": pa.array(np.arange(N))})


@pytest.mark.parametrize("method", list(REGISTRY))
def test_untouched_columns_leave_as_they_came(table: pa.Table, method: str) -> None:
    release = _published(table, "string", method)
    released = pq.read_table(release.path / "data.parquet").sort_by("row")
    rows = released["row"].to_numpy()
    assert len(set(rows.tolist())) == len(rows)
    for name in COLUMNS:
        if name != "string":
            assert _plain(released[name]) == _plain(table[name].take(rows)), name
            kept = table.schema.field(name).type
            wanted = kept.value_type if pa.types.is_dictionary(kept) else kept
            wanted = pa.string() if pa.types.is_large_string(wanted) else wanted
            got = released.schema.field(name).type
            assert (got.value_type if pa.types.is_dictionary(got) else got) == wanted, name


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (name, method)
        for i, method in enumerate(REGISTRY)
        for name in COLUMNS
        if name != "boolean"
        and (method == "uniform" or name == ("int64", "large_string", "timestamp", "decimal")[i % 4])
    ],
)
def test_sensitive_columns_keep_values_and_can_be_asked(name: str, method: str, table: pa.Table) -> None:
    if method == "randomized-response" and name in {"decimal", "double"}:
        with pytest.raises(DataError, match="bins"):
            _published(table, name, method)
        return
    release = _published(table, name, method)
    answer = release.sql("SELECT disease, COUNT(*) AS n FROM release GROUP BY disease").to_arrow()
    assert set(answer["disease"].to_pylist()) == set(_plain(table[name]))
