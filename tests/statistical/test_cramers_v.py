"""Cramer's V of the true rows: unbiased, and its interval holds, over hundreds of published tables.

The published table of a release is drawn anew from the true one, in numpy, by the channel that the plan states; what
is made of it is the package's. False-alarm probability: ALPHA for each of the 2 x 4 tests.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, t

import sfumato as sf
from constants import ALPHA, SEED
from sfumato.analysis.association import TwoWayTable
from sfumato.analysis.cells import read
from sfumato.laws.functionals import Cells, IndependentRows

KEEP, DRAWN, Z = 0.6, 300, 1.959963984540054
LEAST = 0.92  # the level of 0.95 is reached for large tables; this one has 3,000 rows


TRUE = np.array(
    [
        [602, 314, 197, 142, 112, 102, 92, 75],
        [300, 77, 121, 124, 109, 39, 8, 41],
        [202, 161, 50, 10, 1, 43, 58, 22],
    ]
)


class Drawn:
    """The two-way table of one release, and of others that are drawn like it."""

    def __init__(self, values: int, groups: int = 3, keep: float = KEEP) -> None:
        """Of the first values and groups; the others do not take part."""
        self.true = TRUE[:groups, :values]
        g, s = (np.repeat(place.ravel(), self.true.ravel()) for place in np.indices(self.true.shape))
        table = pa.table({"g": pa.array(g, pa.int32()), "s": pa.array(s, pa.int32())})
        method = sf.RandomizedResponse(scope="s", keep={"s": keep})
        release = sf.publish(table, roles=sf.Roles(sensitive="s", quasi=["g"]), method=method, seed=1)
        self.grid = read(release.subject, ("g", "s"))
        self.codes = tuple(np.broadcast_to(self.grid.variables[n].codes, self.grid.weight.shape) for n in ("g", "s"))
        self.channel = np.linalg.inv(self.grid.functionals.weights.forward(np.eye(values)).T)  # type: ignore[attr-defined]
        self.rng = np.random.default_rng(SEED + values)

    def table(self, true: np.ndarray) -> TwoWayTable:
        groups, values = true.shape
        published = np.stack([sum(map(self.rng.multinomial, row, self.channel)) for row in true])
        cells = Cells(
            cell=np.repeat(np.arange(groups), values),
            part=np.zeros(true.size, dtype=np.int64),
            value=np.tile(np.arange(values), groups),
            moments=published.reshape(-1, 1, 1).astype(float),
            cells=groups,
            rows=int(true.sum()),
        )
        functionals = IndependentRows(cells, self.grid.functionals.weights)  # type: ignore[attr-defined]
        grid = replace(self.grid, cells=cells, functionals=functionals)
        return TwoWayTable(grid, self.codes, (np.arange(groups), np.arange(values)))


def strength(counts: np.ndarray) -> float:
    """k V^2."""
    return float((counts**2 / np.outer(counts.sum(axis=1), counts.sum(axis=0))).sum()) - 1


def too_far(numbers: np.ndarray, true: float) -> bool:
    error = numbers.std(ddof=1) / np.sqrt(len(numbers))
    return bool(abs(numbers.mean() - true) / error > t.isf(ALPHA / 2, len(numbers) - 1))


@pytest.mark.slow
@pytest.mark.parametrize("values", [4, 8])
@pytest.mark.parametrize("target", ["table", "population"])
def test_cramers_v_is_unbiased_and_its_interval_holds(target: str, values: int) -> None:
    """Rejected: V of the estimated counts, intervals half as wide."""
    drawn = Drawn(values)
    k, n, shares = min(drawn.true.shape) - 1, int(drawn.true.sum()), drawn.true / drawn.true.sum()
    squares, plain, held, narrow = [], [], 0, 0
    true = strength(drawn.true) / k
    for _ in range(DRAWN):
        rows = drawn.rng.multinomial(n, shares.ravel()).reshape(shares.shape) if target == "population" else drawn.true
        table = drawn.table(rows)
        found, low, high = table.cramers_v(target, Z)  # type: ignore[arg-type]
        assert low is not None
        assert high is not None
        held += low <= np.sqrt(true) <= high
        middle = (low + high) / 2 if found is None else found
        narrow += bool(middle + 0.5 * (low - middle) <= np.sqrt(true) <= middle + 0.5 * (high - middle))
        plain.append(strength(table.counts) / k)
        squares.append(np.nan if found is None else found**2)
    assert binom.cdf(held, DRAWN, LEAST) > ALPHA
    assert binom.cdf(narrow, DRAWN, LEAST) <= ALPHA
    assert too_far(np.array(plain), true)
    if not np.isnan(squares).any():
        assert not too_far(np.array(squares), true)


def test_the_interval_of_a_two_by_two_table_is_that_of_a_root() -> None:
    """One degree of freedom: d is normal, so V^2 plus its noise is a square, which the ends must agree with."""
    drawn = Drawn(2, 2, 0.9)
    table = drawn.table(drawn.true)
    found, low, high = table.cramers_v("table", Z)
    assert found is not None
    S = table.covariance("table")
    sigma = np.sqrt((np.diag(S) / (table.n**2 * np.outer(table.p, table.q)).ravel()).sum())  # error of V
    seen = np.sqrt(found**2 + sigma**2)  # the root of d'Qd, whose law is |V + sigma e|
    for end in (low, high):
        mean = np.sqrt(end**2 + sigma**2)  # type: ignore[operator]
        error = sigma * np.sqrt((end**2 + sigma**2 / 2) / (end**2 + sigma**2))  # type: ignore[operator]
        assert abs(seen - mean) / error == pytest.approx(Z, rel=1e-6)
