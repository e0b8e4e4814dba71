"""Tables of numbers of which most are 0: coefficients of questions, and counts by output row and value.

The operations have the names that scipy's sparse arrays have for them, and give the same numbers. Questions that people
type have tables of a few entries: those are worked on with numpy, because loading scipy takes longer than answering.
Tables of many entries are handed to scipy (docs/performance.md, "Start-up").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
MANY = 100_000  # entries, or products of entries, that scipy is loaded for


class SparseTable:
    """Row i has the numbers `data[indptr[i]:indptr[i + 1]]` in the columns `indices[...]`, ascending and each once."""

    __slots__ = ("data", "indices", "indptr", "shape")

    def __init__(self, data: Floats, indices: Places, indptr: Places, shape: tuple[int, int]) -> None:
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape

    @classmethod
    def of(cls, data: Floats, rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int]) -> SparseTable:
        """The table with the numbers at (row, column); those at one place are added."""
        if len(data) > MANY:
            import scipy.sparse as sp

            return cls._from_scipy(sp.csr_array((data, (rows, columns)), shape=shape))
        place = rows.astype(np.int64) * shape[1] + columns
        if (place[1:] <= place[:-1]).any():
            place, at = np.unique(place, return_inverse=True)
            data = np.bincount(at.reshape(-1), weights=data, minlength=len(place)).astype(np.float64)
        row, column = np.divmod(place, max(shape[1], 1))
        return cls(data, column.astype(np.intp), _starts(row, shape[0]), shape)

    @classmethod
    def dense(cls, numbers: ArrayLike) -> SparseTable:
        """The table of a matrix."""
        matrix = np.asarray(numbers, dtype=np.float64)
        rows, columns = np.nonzero(matrix)
        return cls(matrix[rows, columns], columns, _starts(rows, len(matrix)), (matrix.shape[0], matrix.shape[1]))

    @classmethod
    def _from_scipy(cls, found: Any) -> SparseTable:
        found.sum_duplicates()
        return cls(found.data, found.indices.astype(np.intp), found.indptr.astype(np.intp), found.shape)

    def _scipy(self) -> Any:
        import scipy.sparse as sp

        return sp.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    @property
    def rows(self) -> Places:
        """The row of every entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @property
    def T(self) -> SparseTable:  # noqa: N802 - as numpy has it
        """Rows for columns."""
        if len(self.data) > MANY:
            return self._from_scipy(self._scipy().T.tocsr())
        order = np.argsort(self.indices, kind="stable")
        start = _starts(self.indices[order], self.shape[1])
        return SparseTable(self.data[order], self.rows[order], start, (self.shape[1], self.shape[0]))

    def __getitem__(self, wanted: Any) -> SparseTable:
        """`table[rows]`, `table[:, columns]`, `table[rows, :]`: numbers, in any order, or a slice."""
        rows, columns = wanted if isinstance(wanted, tuple) else (wanted, slice(None))
        found = self if _everything(rows) else self._taken(_numbers(rows, self.shape[0]))
        return found if _everything(columns) else found._columns(_numbers(columns, self.shape[1]))

    def _taken(self, rows: Places) -> SparseTable:
        length = np.diff(self.indptr)[rows]
        start = np.concatenate([[0], np.cumsum(length)]).astype(np.intp)
        at = np.arange(start[-1]) + np.repeat(self.indptr[rows] - start[:-1], length)
        return SparseTable(self.data[at], self.indices[at], start, (len(rows), self.shape[1]))

    def _columns(self, columns: Places) -> SparseTable:
        """A column may be wanted several times: entry k becomes as many as its column is wanted."""
        order = np.argsort(columns, kind="stable")
        first, last = (np.searchsorted(columns[order], self.indices, side=side) for side in ("left", "right"))
        times = last - first
        start = np.cumsum(times) - times
        at = np.arange(times.sum()) - np.repeat(start - first, times)
        return SparseTable.of(
            np.repeat(self.data, times), np.repeat(self.rows, times), order[at], (self.shape[0], len(columns))
        )

    def toarray(self) -> Floats:
        """The matrix."""
        matrix = np.zeros(self.shape)
        matrix[self.rows, self.indices] = self.data
        return matrix

    def sum(self, axis: int) -> Floats:
        """Sums of the rows (axis 1) or of the columns (axis 0)."""
        at = self.rows if axis == 1 else self.indices
        return np.bincount(at, weights=self.data, minlength=self.shape[1 - axis]).astype(np.float64)

    def extreme(self, better: np.ufunc) -> Floats:
        """The largest (np.maximum) or least number of every row, the zeros of rows that are not full included."""
        filled = np.diff(self.indptr)
        result = np.where(filled < self.shape[1], 0.0, -np.inf if better is np.maximum else np.inf)
        better.at(result, self.rows, self.data)
        return result

    def with_data(self, data: Floats) -> SparseTable:
        """Other numbers in the same places; those that are 0 go."""
        kept = data != 0
        if kept.all():
            return SparseTable(data, self.indices, self.indptr, self.shape)
        return SparseTable(data[kept], self.indices[kept], _starts(self.rows[kept], self.shape[0]), self.shape)

    def power(self, exponent: int) -> SparseTable:
        """Every number to the power."""
        return self.with_data(self.data**exponent)

    def __abs__(self) -> SparseTable:
        return self.with_data(np.abs(self.data))

    def __neg__(self) -> SparseTable:
        return self.with_data(-self.data)

    def __sub__(self, other: SparseTable) -> SparseTable:
        data, rows, columns = (np.concatenate([a, b]) for a, b in zip(_flat(self), _flat(-other), strict=True))
        found = SparseTable.of(data, rows, columns, self.shape)
        return found.with_data(found.data)

    def multiply(self, other: SparseTable) -> SparseTable:
        """The product place by place."""
        mine, theirs = (t.rows * t.shape[1] + t.indices for t in (self, other))
        _, left, right = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
        data = self.data[left] * other.data[right]
        return SparseTable(data, self.indices[left], _starts(self.rows[left], self.shape[0]), self.shape)

    def at(self, rows: Places, columns: Places) -> Floats:
        """The number at every (row, column)."""
        if not len(self.data):
            return np.zeros(len(rows))
        places, wanted = self.rows * self.shape[1] + self.indices, rows * self.shape[1] + columns
        found = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
        return np.where(places[found] == wanted, self.data[found], 0.0)

    def product(self, other: SparseTable) -> SparseTable:
        """The matrix product of two tables."""
        times = np.diff(other.indptr)[self.indices]
        if int(times.sum()) > MANY:
            return self._from_scipy(self._scipy() @ other._scipy())
        start = np.cumsum(times) - times
        at = np.arange(times.sum()) - np.repeat(start - other.indptr[self.indices], times)
        data = np.repeat(self.data, times) * other.data[at]
        return SparseTable.of(data, np.repeat(self.rows, times), other.indices[at], (self.shape[0], other.shape[1]))

    def __matmul__(self, other: Floats) -> Floats:
        """The product with a vector or a matrix."""
        if other.ndim > 1 and len(self.data) * other.shape[1] > MANY:
            return np.asarray(self._scipy() @ other, dtype=np.float64)
        if other.ndim == 1:
            parts = self.data * other[self.indices]
            return np.bincount(self.rows, weights=parts, minlength=self.shape[0]).astype(np.float64)
        found = np.zeros((self.shape[0], other.shape[1]))
        np.add.at(found, self.rows, self.data[:, None] * other[self.indices])
        return found


def _starts(rows: NDArray[Any], size: int) -> Places:
    """Where each of `size` rows starts among sorted row numbers, and where the last ends."""
    return np.searchsorted(rows, np.arange(size + 1)).astype(np.intp)


def _everything(wanted: Any) -> bool:
    return isinstance(wanted, slice) and wanted == slice(None)


def _numbers(wanted: slice | Sequence[int] | Places, size: int) -> Places:
    return np.arange(size)[wanted] if isinstance(wanted, slice) else np.asarray(wanted, dtype=np.intp)


def _flat(table: SparseTable) -> tuple[Floats, Places, Places]:
    return table.data, table.rows, table.indices
