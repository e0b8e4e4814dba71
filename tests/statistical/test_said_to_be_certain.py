"""Few rows: an error of 0 says that a number is exact, and certain bounds hold it, whatever the draw was."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS
from sfumato.errors import PlanError

SEEDS = (3, 11, 30, 49, 52)  # among them tables whose estimated counts leave no variance
NUMBERS = (-3.5, 0.0, 0.1, 5.0, 1e6)
ASKED = "COUNT(*) AS n, SUM(w) AS t, AVG(w) AS m FROM release"
QUESTIONS = (
    f"SELECT a, s, {ASKED} GROUP BY a, s",
    f"SELECT a, {ASKED} WHERE s <> 1 GROUP BY a",
    f"SELECT a, {ASKED} WHERE s > 1 GROUP BY a",
)


def table(seed: int) -> pa.Table:
    """A few rows in four areas, with numbers that hardly any of them share."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(12, 50))
    values = int(rng.integers(3, 6))
    secret = np.append(np.arange(values), rng.integers(0, values, rows - values))
    return pa.table({"s": secret, "a": rng.integers(0, 4, rows), "w": rng.choice(NUMBERS, rows)})


def certain(row: dict[str, Any], name: str) -> tuple[float, float] | None:
    """The bounds that are said to hold for sure; None: there are none."""
    if row.get(f"{name}_min") is not None:
        return row[f"{name}_min"], row[f"{name}_max"]
    if row[f"{name}_se"] == 0 and row[name] is not None:
        return row[name], row[name]
    return None


@pytest.mark.parametrize("name", METHODS)
def test_what_is_said_to_be_certain_is(name: str) -> None:
    roles, looked = sf.Roles(sensitive="s", quasi=["a"], insensitive=["w"]), 0
    for seed in SEEDS:
        original = table(seed)
        try:
            release = sf.publish(original, roles=roles, method=METHODS[name], seed=seed)
        except PlanError:
            continue
        connection = duckdb.connect()
        connection.register("release", original)
        for question in QUESTIONS:
            truth = {found[:-3]: found[-3:] for found in connection.execute(question).fetchall()}
            for row in release.sql(question).rows():
                true = truth.get(tuple(row[key] for key in ("a", "s") if key in row), (0, 0.0, None))
                for aggregate, number in zip("ntm", true, strict=True):
                    said = certain(row, aggregate)
                    if said is None or number is None:
                        continue
                    looked += 1
                    near = 1e-9 * (1 + abs(number))
                    assert said[0] - near <= number <= said[1] + near, (seed, question, aggregate, row)
                    assert row[f"{aggregate}_se"] != 0 or said[0] == said[1], (seed, question, aggregate, row)
    assert looked or name not in {"anatomy", "l-diversity"}  # these have certain bounds beside an interval
