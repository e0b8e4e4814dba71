"""Tables in which no value can be hidden among others: no rows, one row, one distinct sensitive value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import METHODS, Done, sfumato
from forging import verified
from sfumato.methods import REGISTRY
from sfumato.model.public import Trust

ROWS = 200
# What does not hide values: the baseline promises nothing, and this one hides whose row it is; its page says that
# columns of one value are copied.
PUBLISHED = {name for name in REGISTRY if REGISTRY[name].trust is Trust.BASELINE} | {"randomized-response"}
VALUES = {"text": "flu", "number": 3}


def table(values: list[object]) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "age": pa.array(rng.integers(1, 5, len(values)), pa.int16()),
            "sex": pa.array(["fm"[i % 2] for i in range(len(values))], pa.string()),
            "disease": pa.array(values, None if values else pa.string()),
        }
    )


def published(rows: pa.Table, out: Path, name: str, *more: object) -> Done:
    pq.write_table(rows, out.with_suffix(".parquet"))
    roles = ("--sa", "disease", "--qi", "age,sex", "--method", name, *METHODS[name], "--seed", 3)
    return sfumato("publish", out.with_suffix(".parquet"), out, *roles, *more)


@pytest.mark.parametrize("name", list(REGISTRY))
def test_no_rows(name: str, tmp_path: Path) -> None:
    done = published(table([]), tmp_path / "out", name)
    assert (done.code, done.err) == (2, "error: the table has no rows\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {n for n in REGISTRY if REGISTRY[n].trust is Trust.BASELINE}))
def test_one_row(name: str, tmp_path: Path) -> None:
    done = published(table(["flu"]), tmp_path / "out", name)
    assert done.code == 3, done.text
    assert "flu" not in done.text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", list(VALUES))
@pytest.mark.parametrize("name", list(REGISTRY))
def test_one_distinct_value(name: str, kind: str, tmp_path: Path) -> None:
    done = published(table([VALUES[kind]] * ROWS), tmp_path / "out", name)
    if name in PUBLISHED:
        assert done.code == 0, done.text
        assert verified(tmp_path / "out")
        return
    assert done.code == 3, done.text
    assert not (tmp_path / "out").exists()
    if name != "l-diversity":  # which names the largest l, 1
        assert "nothing can be hidden" in done.err


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - PUBLISHED))
def test_values_that_no_row_has_hide_nothing(name: str, tmp_path: Path) -> None:
    """The domain is declared with a second one."""
    (tmp_path / "domain.txt").write_text("cold\nflu\n", encoding="utf-8")
    declared = f"disease={tmp_path / 'domain.txt'}"
    done = published(table(["flu"] * ROWS), tmp_path / "out", name, "--domain", declared)
    assert done.code == 3, done.text
    assert not (tmp_path / "out").exists()
