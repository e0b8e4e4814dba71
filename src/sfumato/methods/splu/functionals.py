"""Sums over the true rows of a decoy release. docs/explanation/inference.md, section 3.

The channel M is rebuilt from the published histogram f', which is a fixed point of it: f' M = f'. So the estimated
counts always add up to f', the estimate knows the totals better than independent rows would, and its covariance is
that of the randomisation, less what the totals explain, plus the variance of the totals themselves:

    S = S_rows - X' G+ X + X' G+ T G+ X,   G_c = B' diag(Y_c) B - diag(N_c),  G = sum G_c,  X = sum G_c h_c,
    T = diag(f) (I - M), made symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import UnsupportedQuery
from ..shared.linear_functionals import (
    Cells,
    CodedUnit,
    DependentRows,
    Floats,
    Functions,
    IndependentRows,
    WeightTable,
    runs,
)
from .decoy_channel import DecoyChannel
from .decoy_covariance import RANK

GAP = 1e-6  # relative gap between the estimated and the published totals that calibration closes


MOST_VALUES = 2_000  # the channel is worked out in full


def check_units(units: Sequence[CodedUnit]) -> None:
    """Refuse what the covariance is not worked out for."""
    if len(units) > 1:
        raise UnsupportedQuery(
            "models over several decoy columns at once are not answered",
            hint="Model one of them; counts of their combinations are answered by SQL (GROUP BY both).",
        )
    if len(units[0].classes) > MOST_VALUES:
        raise UnsupportedQuery(
            f"the column has {len(units[0].classes)} values; models read up to {MOST_VALUES}",
            hint="Ask for counts, sums and averages by SQL, or have the column published with fewer values.",
        )


def decoy_functionals(channel: DecoyChannel, cells: Cells, values: int) -> DecoyFunctionals:
    """Under a rebuilt channel; UnsupportedQuery where it does not tell all values apart."""
    if not channel.identifiable.all():
        raise UnsupportedQuery("not identifiable: some values are in so many groups that nothing tells who has them")
    one = np.eye(len(channel.active))
    return DecoyFunctionals(
        cells,
        channel=channel.matrix.forward(one),
        inverse=channel.matrix.weights(one),
        published=channel.published,
        total_counts=channel.counts,
        values=values,
        active=channel.active,
    )


class DecoyFunctionals(DependentRows):
    """Counts and covariances under one decoy channel."""

    def __init__(
        self,
        cells: Cells,
        *,
        channel: Floats,
        inverse: Floats,
        published: Floats,
        total_counts: Floats,
        values: int,
        active: NDArray[np.intp],
    ) -> None:
        """`channel` M and its `inverse` over the `active` values; `published` is f', `total_counts` f as M knows it."""
        B = np.zeros((values, values))
        B[np.ix_(active, active)] = inverse
        self._rows = IndependentRows(cells, WeightTable(matrix=B))
        self.cells, self._B = cells, B
        self._published, M, f = np.zeros(values), np.eye(values), np.zeros(values)
        self._published[active], f[active] = published, total_counts
        M[np.ix_(active, active)] = channel
        T = f[:, None] * (np.eye(values) - M)
        self._T = (T + T.T) / 2
        estimated = self._published @ B
        G = B.T @ (self._published[:, None] * B) - np.diag(estimated)
        self._G_inverse = np.linalg.pinv((G + G.T) / 2, rcond=RANK, hermitian=True)
        gap = self._published - estimated
        rows = max(1.0, float(self._published.sum()))
        self._move = self._G_inverse @ gap if np.abs(gap).max(initial=0.0) > GAP * rows else None
        self._kept: dict[tuple[int, int], Floats] = {}

    @property
    def values(self) -> int:
        return self._rows.values

    def counts(self, a: int = 0, b: int = 0) -> Floats:
        """N; where the published histogram was capped, moved by G_c G+ (f' - sum N) so that it adds up to f'."""
        if self._move is None:
            return self._rows.counts(a, b)
        key = (min(a, b), max(a, b))
        if key not in self._kept:
            plain, Y = self._rows.counts(*key), self._rows.published(*key)
            self._kept[key] = plain + (Y * (self._B @ self._move)) @ self._B - plain * self._move
        return self._kept[key]

    def _of_table(self, functions: Functions) -> Floats:
        plain = self._rows.covariance(functions, "table")
        X = self._with_totals(functions)
        explained = self._G_inverse @ X
        found = plain - X.T @ explained + explained.T @ self._T @ explained
        return (found + found.T) / 2

    def _with_totals(self, functions: Functions) -> Floats:
        """(V, F): covariance of the estimated totals with the functions; sum over cells of B' (Y w) - N h."""
        through, direct = np.zeros((self.values, functions.size)), np.zeros((self.values, functions.size))
        for at in runs(self.cells.cells, functions.size * self.values):
            for a, h in functions.planes(at).items():
                through += np.einsum("ck,cfk->kf", self._rows.published(0, a)[at], h @ self._B.T, optimize=True)
                direct += np.einsum("cv,cfv->vf", self._rows.counts(0, a)[at], h, optimize=True)
        return self._B.T @ through - direct
