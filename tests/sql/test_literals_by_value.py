"""A literal is a value of a column if it is equal to one, however it is written; of every method and kind of column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sfumato import Roles, publish
from sfumato.errors import DataError, QueryError
from sfumato.methods import REGISTRY

ROWS = 1360
KINDS: dict[str, tuple[pa.Array, dict[str, tuple[str, ...]], tuple[str, ...]]] = {
    # values, {a spelling that is one of them: other spellings of it}, literals that are no value
    "decimal": (
        pa.array([Decimal(x) for x in ("1.50", "0.01", "0.10", "-5", "7", "8", "9", "10")], pa.decimal128(10, 2)),
        {
            "disease = '7.00'": ("disease = 7", "disease = 7.0", "disease = 7.00", "disease = '7'", "disease IN (7)"),
            "disease = '0.10'": ("disease = 0.1", "disease = 0.10", "disease IN (0.100)"),
            "disease = '1.50'": ("disease = 1.5",),
            "disease = '-5.00'": ("disease = -5", "disease = -5.0"),
        },
        ("disease = 7.001", "disease = 6", "disease IN (7, 11)", "disease = 'seven'"),
    ),
    "integer": (
        pa.array(range(8)),
        {"disease = 7": ("disease = 7.0", "disease = '7'", "disease = 7e0", "disease IN (7.00)")},
        ("disease = 7.5", "disease = 8"),
    ),
    "real": (
        pa.array([0.0, 0.1, 1.5, -7.0, 1e300, 2.0, 3.0, 4.0]),
        {
            "disease = 1.5": ("disease = 1.50", "disease = '1.5'"),
            "disease = -7.0": ("disease = -7",),
            "disease = 0": ("disease = 0.0",),
        },
        ("disease = 1.51", "disease = 'x'"),
    ),
    "date": (
        pa.array([dt.date(2020, 1, 1 + i) for i in range(8)]),
        {
            "disease = DATE '2020-01-02'": (
                "disease = '2020-01-02'",
                "disease = '2020-1-2'",
                "disease IN ('2020-01-02')",
            )
        },
        ("disease = '2021-01-01'", "disease = 'monday'", "disease = 'O''Hara'"),
    ),
    "timestamp": (
        pa.array([f"2020-01-0{1 + i} {3 * i:02}:00:00" for i in range(8)]).cast(pa.timestamp("us")),
        {
            "disease = TIMESTAMP '2020-01-02 03:00:00'": (
                "disease = '2020-01-02 03:00:00'",
                "disease = '2020-01-02T03:00'",
            ),
            "disease = TIMESTAMP '2020-01-01 00:00:00'": ("disease = '2020-01-01'", "disease = DATE '2020-01-01'"),
        },
        ("disease = '2020-01-02 03:00:01'",),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REGISTRY)
def test_a_value_may_be_spelled_in_any_way(name: str, kind: str) -> None:
    values, spellings, strangers = KINDS[kind]
    rng = np.random.default_rng(1)
    table = pa.table({
        "disease": values.take(pa.array(rng.permutation(np.arange(ROWS) % len(values)))),
        "sex": pa.array(["f", "m"]).take(pa.array(np.arange(ROWS) % 2)),
    })  # fmt: skip
    method = REGISTRY[name].spec(**REGISTRY[name].example.spec)
    try:
        release = publish(table, roles=Roles(sensitive="disease", quasi=["sex"]), method=method, seed=1)
    except DataError as refused:
        assert (name, "--bins" in str(refused)) == ("randomized-response", True)  # noqa: PT017 - and nobody else
        return
    asked = "SELECT COUNT(*) AS n FROM release WHERE "
    for first, others in spellings.items():
        told = release.sql(asked + first).rows()
        for other in others:
            assert release.sql(asked + other).rows() == told, other
    for stranger in (
        strangers if "disease" in release.schema.units else ()
    ):  # a column that is as it was may hold anything
        with pytest.raises(QueryError, match='"disease" has no value'):
            release.sql(asked + stranger)


def test_truth_may_be_spelled_in_any_way() -> None:
    table = pa.table({"disease": pa.array(np.arange(ROWS) % 2 == 0), "sex": ["f"] * ROWS})
    method = REGISTRY["randomized-response"].spec(**REGISTRY["randomized-response"].example.spec)
    release = publish(table, roles=Roles(sensitive="disease", quasi=["sex"]), method=method, seed=1)
    asked = "SELECT COUNT(*) AS n FROM release WHERE "
    told = [
        release.sql(asked + c).rows()
        for c in ("disease", "disease = true", "disease = TRUE", "disease = 'true'", "disease = 't'", "disease = 1")
    ]
    assert all(rows == told[0] for rows in told)
    with pytest.raises(QueryError, match='"disease" has no value "maybe"'):
        release.sql(asked + "disease = 'maybe'")
