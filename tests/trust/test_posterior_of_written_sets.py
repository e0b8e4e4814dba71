"""A release of sets as it lies on disk: the channel rebuilt from its files alone, every predicate's posterior tried.

Only release.json, data.parquet and sets.parquet are read, with no code of ours. Three things tie the rebuilt channel
to the release: it shows the sets that the rows show, the written weights are unbiased under it, and the rows hold their
own value as often as it says (two-sided binomial tests, ALPHA together).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import sfumato as sf
from constants import ALPHA, SEED

VALUES, ROWS = 10, 10_000
UNIT = 2**32  # the chance to show one of the value's own sets is a multiple of 1 / UNIT, rounded down
RHO1, RHO2 = Fraction(1, 5), Fraction(1, 3)
RHOS = {"rho1": "1/5", "rho2": "1/3"}
SPECS = {
    "table-wide": sf.SubsetResponse(**RHOS),
    "ranges": sf.SubsetResponse(**RHOS, workload="ranges"),
    "sub-tables": sf.SmallDomain(**RHOS, report="set"),
}


@dataclass(frozen=True)
class Channel:
    """Of one sub-table, or of the whole table: Pr[set | value] by the set's number."""

    values: tuple[int, ...]
    sets: dict[int, frozenset[int]]
    chances: dict[int, dict[int, Fraction]]


def people() -> dict[str, np.ndarray]:
    """Ten values, not all alike frequent, each below a fifth of the rows, and a number for every row."""
    shares = np.linspace(2, 1, VALUES)
    pay = np.random.default_rng(SEED).choice(VALUES, ROWS, p=shares / shares.sum())
    return {"pay": pay, "row": np.arange(ROWS)}


@pytest.fixture(scope="module", params=SPECS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("written") / "release"
    roles = sf.Roles(sensitive="pay", quasi=["row"])
    sf.publish(pa.table(people()), out, roles=roles, method=SPECS[request.param], seed=SEED)
    return out


def parts(parameters: dict[str, Any]) -> Iterator[tuple[list[int], Fraction, dict[str, Any]]]:
    """(values, gamma, stated list) of every sub-table."""
    if parameters.get("domains") is None:
        yield list(range(parameters["values"])), Fraction(parameters["gammas"][0]), parameters["lists"][0]
        return
    lists, which = parameters["lists"], parameters["of"]
    for domain, gamma, at in zip(parameters["domains"], parameters["gammas"], which, strict=True):
        yield domain, Fraction(gamma), lists[at]


def channels(folder: Path) -> list[Channel]:
    """As the files state them."""
    found, start = [], 0
    for values, gamma, listed in parts(json.loads((folder / "release.json").read_text())["law"]):
        m, places = len(values), listed["sets"]
        if listed["cyclic"]:
            places = [[(v + t) % m for v in block] for block in places for t in range(m)]
        sets = [frozenset(values[v] for v in place) for place in places]
        weights = listed["weights"] or [1] * len(sets)
        (holding,) = {sum(n for z, n in zip(sets, weights, strict=True) if x in z) for x in values}
        lifted = (gamma - 1) * holding
        keep = Fraction(int(lifted / (sum(weights) + lifted) * UNIT), UNIT)
        chances = {
            start + k: {x: keep * n * (x in z) / holding + (1 - keep) * n / sum(weights) for x in values}
            for k, (z, n) in enumerate(zip(sets, weights, strict=True))
        }
        assert all(sum(row[x] for row in chances.values()) == 1 for x in values)
        found.append(Channel(tuple(values), {start + k: z for k, z in enumerate(sets)}, chances))
        start += len(sets)
    return found


def test_no_predicate_passes_rho2(folder: Path) -> None:
    """The prior that lifts a predicate most: all belief inside on the likeliest value, outside on the unlikeliest."""
    levels = set()  # (likeliest inside, unlikeliest outside), as whole numbers
    for channel in channels(folder):
        scale = math.lcm(*(p.denominator for row in channel.chances.values() for p in row.values()))
        rows = [{x: int(p * scale) for x, p in row.items()} for row in channel.chances.values()]
        for held in range(1, 2 ** len(channel.values) - 1):
            inside = [x for k, x in enumerate(channel.values) if held >> k & 1]
            outside = [x for k, x in enumerate(channel.values) if not held >> k & 1]
            levels |= {(max(row[x] for x in inside), min(row[x] for x in outside)) for row in rows}
    largest = max(RHO1 * top / (RHO1 * top + (1 - RHO1) * low) for top, low in levels)
    assert largest <= RHO2


def test_no_value_passes_rho2_from_its_share_of_the_sub_table(folder: Path) -> None:
    """It can be above rho1, and the reader may know it; all other belief on the value that lifts this one most."""
    data, true, largest = pq.read_table(folder / "data.parquet"), people()["pay"], Fraction(0)
    number, own = data["pay_set"].to_numpy(), true[data["row"].to_numpy()]
    for channel in channels(folder):
        here = np.bincount(own[np.isin(number, list(channel.sets))], minlength=VALUES)
        assert set(np.flatnonzero(here)) == set(channel.values)
        for x in channel.values:
            prior = max(RHO1, Fraction(int(here[x]), int(here.sum())))
            for row in channel.chances.values():
                low = min(row[y] for y in channel.values if y != x)
                largest = max(largest, prior * row[x] / (prior * row[x] + (1 - prior) * low))
    assert largest <= RHO2
    if "sub_table" not in data.column_names:  # sub-tables round gamma down further, so that it tells no count
        assert RHO2 - largest < Fraction(1, 10**8), "what is allowed is used"


def test_the_channel_is_that_of_the_rows_and_weights(folder: Path) -> None:
    data, weights = pq.read_table(folder / "data.parquet"), pq.read_table(folder / "sets.parquet")
    found, true = channels(folder), people()["pay"]
    assert len(found) > 1 or "sub_table" not in data.column_names
    assert all(max(len(z) for z in channel.sets.values()) > 1 for channel in found)
    sets = {number: z for channel in found for number, z in channel.sets.items()}
    number, own = data["pay_set"].to_numpy(), true[data["row"].to_numpy()]
    written = {k: frozenset(w["value"] for w in weights.to_pylist() if w["pay_set"] == k and w["member"]) for k in sets}
    assert sets == written
    omega = {(w["pay_set"], w["value"]): w["weight"] for w in weights.to_pylist()}
    assert len(omega) == sum(len(c.sets) * len(c.values) for c in found)
    for channel in found:
        for x in channel.values:
            for y in channel.values:
                mean = sum(float(row[x]) * omega[k, y] for k, row in channel.chances.items())
                assert mean == pytest.approx(float(x == y), abs=1e-9)
            mine = number[np.isin(number, list(channel.sets)) & (own == x)]
            hits = sum(x in channel.sets[k] for k in mine.tolist())
            chance = float(sum(row[x] for k, row in channel.chances.items() if x in channel.sets[k]))
            assert stats.binomtest(hits, len(mine), chance).pvalue > ALPHA / (len(found) * VALUES)
