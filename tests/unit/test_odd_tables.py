"""Tables that people do have: odd names, odd types. Published right, or refused in one line that names the column."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError, SfumatoError

N = 900
RNG = np.random.default_rng(8)
LETTERS = pa.array(np.array(list("abcdefgh"))[RNG.integers(0, 8, N)])
DIGITS = RNG.integers(0, 8, N)
UNIFORM = sf.UniformPerturbation(rho1="1/3", rho2="1/2")


@pytest.mark.parametrize("name", ["__order__", "__n__", "__code__", "__count__"])
def test_names_of_our_own_columns_are_refused(name: str, tmp_path: Path) -> None:
    """A column called as our sort key would decide the order of the rows."""
    table = pa.table({"s": LETTERS, name: DIGITS})
    with pytest.raises(SfumatoError, match=name):
        sf.publish(table, tmp_path / "out", roles=sf.Roles(sensitive="s", rest="quasi"), method=UNIFORM)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["k0", "l0", "m0", "e0", "n", "release", "cells", "source", "a b", "ü😀", 'q"', "s;--"]
)
def test_other_names_are_as_good_as_any(name: str) -> None:
    table = pa.table({"s": LETTERS, name: DIGITS})
    release = sf.publish(table, roles=sf.Roles(sensitive="s", rest="quasi"), method=UNIFORM)
    quoted = '"' + name.replace('"', '""') + '"'
    answer = release.sql(f"SELECT {quoted} AS k, COUNT(*) AS people FROM release WHERE {quoted} <= 3 GROUP BY {quoted}")
    truth = np.bincount(DIGITS)[:4]
    assert [row["people"] for row in sorted(answer.rows(), key=lambda row: row["k"])] == truth.tolist()
    asked = release.sql(f"SELECT {quoted} AS k, COUNT(*) AS people FROM release WHERE s = 'a' GROUP BY {quoted}")
    assert len(asked.rows()) == 8


BAD: dict[str, pa.Array] = {
    "NaN": pa.array(np.where(DIGITS == 0, np.nan, DIGITS)),
    "infinite": pa.array(np.where(DIGITS == 0, np.inf, DIGITS)),
    "BLOB": pa.array([bytes([d]) for d in DIGITS]),
    "TIMESTAMP_NS": pa.array(DIGITS * 10**9 + 1, pa.timestamp("ns")),
    "INTERVAL": pa.array(DIGITS, pa.duration("s")),
    "BIGINT": pa.array([[int(d)] for d in DIGITS]),
    "STRUCT": pa.array([{"a": int(d)} for d in DIGITS]),
    "type": pa.array([Decimal(int(d)) for d in DIGITS], pa.decimal256(50, 2)),
}


@pytest.mark.parametrize("word", BAD)
@pytest.mark.parametrize("null_as_value", [False, True])
def test_sensitive_columns_of_odd_types_are_refused(word: str, null_as_value: bool) -> None:
    table = pa.table({"s": BAD[word], "q": LETTERS})
    with pytest.raises(DataError, match=word) as caught:
        sf.publish(table, roles=sf.Roles(sensitive="s", quasi=["q"]), method=UNIFORM, null_as_value=null_as_value)
    assert "\n" not in str(caught.value)
