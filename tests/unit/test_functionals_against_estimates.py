"""The vectorised sums equal what the methods answer to SQL: same values, covariances within 2 %, on 16 cells.

SQL clips variances where they come out too small, and a decoy release weighs its totals question by question; that is
all of the difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import sfumato
from sfumato import datasets
from sfumato.analysis.cells import read
from sfumato.laws.functionals import Functions
from sfumato.model.public import Asked, Observed

METHODS = {
    "subset-response": lambda: sfumato.SubsetResponse(rho1="1/5", rho2="1/3"),
    "small-domain sets": lambda: sfumato.SmallDomain(rho1="1/7", rho2="1/4", report="set"),
    "uniform": lambda: sfumato.UniformPerturbation(rho1="1/5", rho2="1/2"),
    "small-domain": lambda: sfumato.SmallDomain(rho1="1/5", rho2="1/2"),
    "randomized-response": lambda: sfumato.RandomizedResponse(scope="s", keep={"occupation": "0.6"}),
    "splu": lambda: sfumato.Splu(gamma=4),
    "anatomy": lambda: sfumato.Anatomy(l=4),
}
CELLS, FUNCTIONS = ("relationship", "race"), 3
SHARE = 0.02  # of the larger variance

pytestmark = pytest.mark.slow


def estimated(release: Any, grid: Any, h: np.ndarray) -> Any:
    """The method's own answer to the same sums, one pattern of coefficients per cell."""
    cells, V = grid.cells, h.shape[2]
    observed = Observed(
        stratum=cells.cell,
        part=cells.part,
        value=cells.value,
        moments=cells.moments[:, :, 0],
        key=np.zeros(cells.cells, dtype=np.intp),
        pattern=np.arange(cells.cells),
        keys=1,
    )
    asked = Asked(
        units=(0,),
        classes=(np.arange(V, dtype=np.int32),),
        coefficients=tuple(csr_array(h[c]) for c in range(cells.cells)),
        measure=np.zeros(h.shape[1], dtype=np.intp),
        products=np.zeros((1, 1), dtype=np.intp),
        pairs=np.array([(i, j) for i in range(h.shape[1]) for j in range(i + 1, h.shape[1])]),
        binary=False,
        z=1.96,
    )
    return release.subject.estimate(observed, asked), asked.pairs


@pytest.mark.parametrize("method", METHODS)
def test_sums_equal_the_methods_own_answers(method: str) -> None:
    roles = sfumato.Roles(sensitive="occupation", quasi=list(CELLS), rest="drop")
    release = sfumato.publish(datasets.adult(), roles=roles, method=METHODS[method](), seed=7, null_as_value=True)
    grid = read(release.subject, (*CELLS, "occupation"), where="race IN ('White', 'Black', 'Other')")
    assert 15 <= grid.cells.cells <= 18
    V = grid.weight.shape[1]
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(grid.cells.cells), rng.normal(size=(grid.cells.cells, FUNCTIONS - 1))])
    h = x[:, :, None] * rng.random((grid.cells.cells, 1, V))  # a score: numbers of the cell times one of the value
    found, pairs = estimated(release, grid, h)
    functions = Functions.of(h)
    S = grid.functionals.covariance(functions, "table")
    scale = np.sqrt(np.diag(S))
    np.testing.assert_array_less(np.abs(grid.functionals.value(functions) - found.value[0]), 1e-6 * scale)
    np.testing.assert_allclose(np.diag(S), found.variance[0], rtol=SHARE)
    stated = np.array([S[i, j] / scale[i] / scale[j] for i, j in pairs])
    answered = np.array([c / scale[i] / scale[j] for c, (i, j) in zip(found.covariance[0], pairs, strict=True)])
    np.testing.assert_allclose(stated, answered, atol=SHARE)
