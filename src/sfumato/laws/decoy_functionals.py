"""Sums over the true rows of a decoy release. docs/explanation/inference.md, section 3.

The channel M is rebuilt from the published histogram f', which is a fixed point of it: f' M = f'. So the estimated
counts always add up to f', the estimate knows the totals better than independent rows would, and its covariance is
that of the randomisation, less what the totals explain, plus the variance of the totals themselves:

    S = S_rows - X' G+ X + X' G+ T G+ X,   G_c = B' diag(Y_c) B - diag(N_c),  G = sum G_c,  X = sum G_c h_c,
    T = diag(f) (I - M), made symmetric.

Several columns have independent channels: B is their Kronecker product, and the totals of every column add terms of
their own, with X the covariance of that column's totals with the sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import UnsupportedQuery
from ..model.public import Floats
from .decoy_channel import DecoyChannel
from .decoy_covariance import RANK
from .functionals import Cells, CodedUnit, DependentRows, Functions, IndependentRows, KroneckerWeights, Target, runs

GAP = 1e-6  # relative gap between the estimated and the published totals that calibration closes


MOST_VALUES = 2_000  # the channel is worked out in full


def check_units(units: Sequence[CodedUnit]) -> None:
    """Refuse what the covariance is not worked out for."""
    for unit in units:
        if len(unit.classes) > MOST_VALUES:
            raise UnsupportedQuery(
                f"the column has {len(unit.classes)} values; models read up to {MOST_VALUES}",
                hint="Ask for counts, sums and averages by SQL, or have the column published with fewer values.",
            )


def decoy_functionals(
    channels: Sequence[DecoyChannel], cells: Cells, units: Sequence[CodedUnit], rows: int, said: tuple[str, ...] = ()
) -> DecoyFunctionals:
    """Under rebuilt channels, one for each unit; UnsupportedQuery where they do not tell all values apart.

    `said` are the caveats of what hangs on the channels.
    """
    if not all(channel.identifiable.all() for channel in channels):
        raise UnsupportedQuery("not identifiable: some values are in so many groups that nothing tells who has them")
    columns = [_Column(channel, len(unit.classes), rows) for channel, unit in zip(channels, units, strict=True)]
    return DecoyFunctionals(cells, columns, said)


class _Column:
    """One column's channel over its declared values, and its published totals."""

    def __init__(self, channel: DecoyChannel, values: int, rows: int) -> None:
        one, active = np.eye(len(channel.active)), channel.active
        B, M = np.zeros((values, values)), np.eye(values)
        B[np.ix_(active, active)] = channel.matrix.weights(one)
        M[np.ix_(active, active)] = channel.matrix.forward(one)
        published, f = np.zeros(values), np.zeros(values)
        published[active], f[active] = channel.published, channel.counts
        T = f[:, None] * (np.eye(values) - M)
        estimated = published @ B
        G = B.T @ (published[:, None] * B) - np.diag(estimated)
        self.B, self.T = B, (T + T.T) / 2
        self.G_inverse = np.linalg.pinv((G + G.T) / 2, rcond=RANK, hermitian=True)
        gap = published - estimated
        self.move = self.G_inverse @ gap if np.abs(gap).max(initial=0.0) > GAP * max(1, rows) else None


class DecoyFunctionals(DependentRows):
    """Counts and covariances under the channels of decoy columns."""

    def __init__(self, cells: Cells, columns: Sequence[_Column], caveats: tuple[str, ...]) -> None:
        self.cells, self._columns, self.caveats = cells, columns, caveats
        self._shape = tuple(len(column.B) for column in columns)
        self._weights = KroneckerWeights(axes=tuple(column.B for column in columns), shape=self._shape)
        self._rows = IndependentRows(cells, self._weights)
        self._kept: dict[tuple[int, int], Floats] = {}

    @property
    def values(self) -> int:
        return self._rows.values

    def counts(self, a: int = 0, b: int = 0) -> Floats:
        """N; where a published histogram was capped, moved by G_c G+ (f' - sum N) so that it adds up to f'.

        Of several columns, each moves them by their covariance with its own totals.
        """
        key = (min(a, b), max(a, b))
        if all(column.move is None for column in self._columns):
            return self._rows.counts(*key)
        if key not in self._kept:
            plain, Y = self._rows.counts(*key), self._rows.published(*key)
            found = plain
            for u, column in enumerate(self._columns):
                if column.move is not None:
                    shown, true = (self._along(t, u) for t in (Y, plain))
                    found = found + self._weights.back(self._flat(shown * (column.B @ column.move), u))
                    found = found - self._flat(true * column.move, u)
            self._kept[key] = found
        return self._kept[key]

    def variance_slopes(self, functions: Functions, target: Target) -> Floats:
        return self._rows.variance_slopes(functions, target)

    def _of_table(self, functions: Functions) -> Floats:
        found = self._rows.covariance(functions, "table")
        for column, X in zip(self._columns, self._with_totals(functions), strict=True):
            explained = column.G_inverse @ X
            found = found - X.T @ explained + explained.T @ column.T @ explained
        return (found + found.T) / 2

    def _with_totals(self, functions: Functions) -> list[Floats]:
        """(V_u, F) each: covariance of a column's estimated totals with the functions; B' (Y w) - N h by its value."""
        through, direct = ([np.zeros((size, functions.size)) for size in self._shape] for _ in range(2))
        for at in runs(self.cells.cells, functions.size * self.values):
            for a, h in functions.planes(at).items():
                seen = np.einsum("ck,cfk->fk", self._rows.published(0, a)[at], self._weights.forward(h), optimize=True)
                held = np.einsum("cv,cfv->fv", self._rows.counts(0, a)[at], h, optimize=True)
                for u in range(len(self._shape)):
                    through[u] += self._margin(seen, u).T
                    direct[u] += self._margin(held, u).T
        return [column.B.T @ t - d for column, t, d in zip(self._columns, through, direct, strict=True)]

    def _along(self, table: Floats, axis: int) -> Floats:
        """Rows of joint tables with one column's axis last."""
        return np.moveaxis(table.reshape(len(table), *self._shape), 1 + axis, -1)

    def _flat(self, table: Floats, axis: int) -> Floats:
        """The inverse of `_along`."""
        return np.moveaxis(table, -1, 1 + axis).reshape(len(table), math.prod(self._shape))

    def _margin(self, table: Floats, axis: int) -> Floats:
        return self._along(table, axis).reshape(len(table), -1, self._shape[axis]).sum(axis=1)
