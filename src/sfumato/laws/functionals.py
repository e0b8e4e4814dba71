"""Sums over the true rows, `sum_i g_i h(cell_i, value_i)`, with their covariance, for many functions h at once.

A *cell* is a distinct combination of the untouched columns that a model reads, a *value* the true joint value of its
randomised columns, a *measure* g a number per row that comes from untouched columns only (measure 0 is the constant 1).
What a method must supply is an unbiased estimate N of the rows per (cell, value) and the covariance of linear
functions of it. Here: the protocol, and rows randomised one by one. docs/explanation/inference.md, sections 1 and 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..model.public import Floats
from ..stats.joint_codes import sum_by_group

Target = Literal["population", "table"]
Planes = Mapping[int, Floats]  # measure -> h over (cells, functions, values); the measures' parts are added

CHUNK = 4_000_000  # numbers of one dense block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """What is published, one entry per observed combination: `moments[r, a, b]` sums g_a g_b over the entry's rows."""

    cell: NDArray[np.intp]  # (R,)
    part: NDArray[np.int64]  # (R,) sub-table or group; 0 where the method has none
    value: NDArray[np.intp]  # (R,) class of the published joint value; 0 where it is not in the rows
    moments: Floats  # (R, G, G)
    cells: int
    rows: int  # all rows of the release, inside these cells or not

    @property
    def measures(self) -> int:
        return self.moments.shape[1]

    def table(self, state: NDArray[np.intp], states: int, a: int = 0, b: int = 0) -> Floats:
        """(cells, states): sums of g_a g_b by cell and published state."""
        flat = np.bincount(
            self.cell * states + state, weights=self.moments[:, a, b], minlength=self.cells * states
        ).astype(np.float64)
        return flat.reshape(self.cells, states)

    def merged(self, label: NDArray[np.intp], size: int) -> Cells:
        """The same rows where cells of one label, of `size`, are one cell."""
        parts, values = int(self.part.max(initial=0)) + 1, int(self.value.max(initial=0)) + 1
        key = (label[self.cell] * parts + self.part) * values + self.value
        kept, place = np.unique(key, return_inverse=True)
        moments = sum_by_group(self.moments, place.reshape(-1), len(kept))
        return Cells(
            cell=(kept // (parts * values)).astype(np.intp),
            part=(kept // values % parts).astype(np.int64),
            value=(kept % values).astype(np.intp),
            moments=moments,
            cells=size,
            rows=self.rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodedUnit:
    """A randomised unit that an analysis reads: `classes[code]` is the class of a domain value.

    Joint classes of several units are numbered as by `numpy.ravel_multi_index`.
    """

    unit: int
    classes: NDArray[np.int32]

    @property
    def size(self) -> int:
        """How many classes there are."""
        return int(self.classes.max()) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """`size` functions h; `planes(cells)` lays them out for a run of cells as (cells, size, values) per measure."""

    size: int
    planes: Callable[[slice], Planes]

    @classmethod
    def of(cls, *planes: Floats) -> Functions:
        """The functions whose part for measure a is the a-th array, (cells, functions, values)."""
        return cls(size=planes[0].shape[1], planes=lambda at: {a: p[at] for a, p in enumerate(planes)})


class Functionals(Protocol):
    """What an analysis asks of a method: estimated counts, and sums of functions with their covariance."""

    @property
    def values(self) -> int:
        """How many joint values there are."""

    @property
    def exact(self) -> bool:
        """Whether nothing is randomised, so that the counts are the table's own."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What every answer from these sums must say."""

    def kept_independent(self) -> Floats | None:
        """(cells, states) published rows, where a row's noise knows nothing but its value: what is independent is then
        published independent; None elsewhere."""

    def counts(self, a: int = 0, b: int = 0) -> Floats:
        """(cells, values): unbiased sums of g_a g_b over the true rows; may be negative."""

    def value(self, functions: Functions) -> Floats:
        """(F,) estimates of the sums of the functions."""

    def covariance(self, functions: Functions, target: Target) -> Floats:
        """(F, F) covariance: of the randomisation ("table"), or with the rows a random sample ("population")."""

    def variance_slopes(self, functions: Functions, target: Target) -> Floats:
        """(F,) how the variance that is stated moves with the estimate, for measure 0; 0 where it is not worked out."""


class DependentRows(ABC):
    """Functionals of rows whose noise hangs together: what follows from their counts; methods add the covariance."""

    cells: Cells
    exact = False
    caveats: tuple[str, ...] = ()

    @property
    @abstractmethod
    def values(self) -> int: ...

    def kept_independent(self) -> None:
        return None

    @abstractmethod
    def counts(self, a: int = 0, b: int = 0) -> Floats: ...

    def value(self, functions: Functions) -> Floats:
        return sums(self.counts, functions, self.cells.cells, self.values)

    def covariance(self, functions: Functions, target: Target) -> Floats:
        found = self._of_table(functions)
        return found + sampling(self, functions, self.cells) if target == "population" else found

    def variance_slopes(self, functions: Functions, target: Target) -> Floats:
        return np.zeros(functions.size)

    @abstractmethod
    def _of_table(self, functions: Functions) -> Floats:
        """(F, F): of the randomisation."""


def runs(cells: int, width: int) -> Iterator[slice]:
    """Runs of cells such that one block of `width` numbers per cell stays below CHUNK."""
    step = max(1, CHUNK // max(1, width))
    for start in range(0, cells, step):
        yield slice(start, min(cells, start + step))


def sums(counts: Callable[[int], Floats], functions: Functions, cells: int, values: int) -> Floats:
    """(F,): sum over cells and values of counts times h, over the measures."""
    found = np.zeros(functions.size)
    for at in runs(cells, functions.size * values):
        for a, h in functions.planes(at).items():
            found += np.einsum("cv,cfv->f", counts(a)[at], h, optimize=True)
    return found


def products(counts: Callable[[int, int], Floats], planes: Planes, at: slice) -> Floats:
    """(F, F): sum over cells and states of g_a g_b times h_a h_b', for one run of cells."""
    found: Floats | None = None
    for a, left in planes.items():
        for b, right in planes.items():
            scaled = left * counts(a, b)[at][:, None, :]
            term = np.einsum("cfk,cgk->fg", scaled, right, optimize=True)
            found = term if found is None else found + term
    assert found is not None
    return found


# --- how published states turn into true values ---------------------------------------------------------------


class Weights(Protocol):
    """B: a published state k carries the number B[k, v] towards the count of true value v. `N = Y B`, `w = B h`."""

    @property
    def states(self) -> int:
        """K, how many published states there are."""

    @property
    def values(self) -> int:
        """V, how many true joint values there are."""

    def forward(self, h: Floats) -> Floats:
        """B h along the last axis: (..., V) -> (..., K)."""

    def back(self, published: Floats) -> Floats:
        """Y B along the last axis: (..., K) -> (..., V)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightTable:
    """B in full, (K, V). The states may be other things than values: sets of them, or (sub-table, value) pairs."""

    matrix: Floats

    @property
    def states(self) -> int:
        return self.matrix.shape[0]

    @property
    def values(self) -> int:
        return self.matrix.shape[1]

    def forward(self, h: Floats) -> Floats:
        return h @ self.matrix.T

    def back(self, published: Floats) -> Floats:
        return published @ self.matrix


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KroneckerWeights:
    """B = B_1 x ... x B_m of columns that are randomised independently, applied axis by axis; None is the identity."""

    axes: tuple[Floats | None, ...]
    shape: tuple[int, ...]  # values per axis

    @property
    def _published(self) -> tuple[int, ...]:
        return tuple(n if B is None else B.shape[0] for B, n in zip(self.axes, self.shape, strict=True))

    @property
    def states(self) -> int:
        return math.prod(self._published)

    @property
    def values(self) -> int:
        return math.prod(self.shape)

    def forward(self, h: Floats) -> Floats:
        return self._apply(h, self.shape, transposed=False)

    def back(self, published: Floats) -> Floats:
        return self._apply(published, self._published, transposed=True)

    def _apply(self, x: Floats, shape: tuple[int, ...], *, transposed: bool) -> Floats:
        lead = x.shape[:-1]
        table = x.reshape(-1, *shape)
        for axis, B in enumerate(self.axes, start=1):
            if B is not None:
                moved = np.moveaxis(table, axis, -1) @ (B if transposed else B.T)
                table = np.moveaxis(moved, -1, axis)
        return table.reshape(*lead, -1)


def redraw_weights(theta: float, q: float, class_sizes: NDArray[np.integer] | Floats) -> Floats:
    """B of the channel Pr(y | s) = theta 1[y = s] + q between classes of values: B = (I - q 1 c') / theta.

    Exact for classes of any size: a published class depends on the true value through its class only.
    """
    sizes = np.asarray(class_sizes, dtype=np.float64)
    return (np.eye(len(sizes)) - q * sizes[None, :]) / theta


def inverse_of(channel: Floats) -> Floats:
    """B of a channel with Pr(state k | value v) = channel[v, k]: any left inverse of it, transposed.

    Where there are more states than values the left inverse is not unique; this one has the least variance for a
    table in which all values are equally frequent.
    """
    share = np.maximum(channel.sum(axis=0), np.finfo(float).tiny)
    scaled = channel / share[None, :]
    # B' = (C D^-1 C')^-1 C D^-1 with D = diag(share): generalised least squares, and B' C' = I.
    return np.linalg.solve(scaled @ channel.T, scaled).T


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetListWeights:
    """B of published sets, numbered through over the sub-tables: their weights for the values of their sub-table."""

    blocks: tuple[tuple[NDArray[np.intp], Floats], ...]  # the values of each sub-table, and (states, values) weights
    values: int
    table: WeightTable = field(init=False)

    def __post_init__(self) -> None:
        start = self._start()
        matrix = np.zeros((int(start[-1]), self.values))
        for i, (held, B) in enumerate(self.blocks):
            matrix[start[i] : start[i + 1], held] = B
        object.__setattr__(self, "table", WeightTable(matrix=matrix))

    def _start(self) -> NDArray[np.intp]:
        return np.cumsum([0, *(len(B) for _, B in self.blocks)])

    @property
    def states(self) -> int:
        return self.table.states

    def forward(self, h: Floats) -> Floats:
        return self.table.forward(h)

    def back(self, published: Floats) -> Floats:
        return self.table.back(published)


class IndependentRows:
    """`N = Y B`; S = sum Y w w' - sum N h h' of the randomisation, sum Y w w' - (sum w)(sum w)' / n of a population.

    Both are unbiased whatever the table is: given its true value a row's w has mean h, and rows are independent.
    """

    caveats: tuple[str, ...] = ()

    def __init__(self, cells: Cells, weights: Weights, state: NDArray[np.intp] | None = None) -> None:
        self._cells, self.weights = cells, weights
        self._state = cells.value if state is None else state
        self._published: dict[tuple[int, int], Floats] = {}
        self._counts: dict[tuple[int, int], Floats] = {}
        self.exact = isinstance(weights, KroneckerWeights) and all(B is None for B in weights.axes)

    @property
    def values(self) -> int:
        return self.weights.values

    def kept_independent(self) -> Floats | None:
        return None if isinstance(self.weights, SetListWeights) else self.published()

    def published(self, a: int = 0, b: int = 0) -> Floats:
        """(cells, states): sums of g_a g_b over the published rows."""
        key = (min(a, b), max(a, b))
        if key not in self._published:
            self._published[key] = self._cells.table(self._state, self.weights.states, *key)
        return self._published[key]

    def counts(self, a: int = 0, b: int = 0) -> Floats:
        key = (min(a, b), max(a, b))
        if key not in self._counts:
            self._counts[key] = self.weights.back(self.published(*key))
        return self._counts[key]

    def value(self, functions: Functions) -> Floats:
        return sums(self.counts, functions, self._cells.cells, self.values)

    def covariance(self, functions: Functions, target: Target) -> Floats:
        F = functions.size
        if self.exact and target == "table":
            return np.zeros((F, F))
        spread, known = np.zeros((F, F)), np.zeros((F, F))
        for at in runs(self._cells.cells, F * max(self.weights.states, self.values)):
            planes = functions.planes(at)
            weights = {a: self.weights.forward(h) for a, h in planes.items()}
            spread += products(self.published, weights, at)
            if target == "table":
                known += products(self.counts, planes, at)
        if target == "population":
            total = self.value(functions)
            known = np.outer(total, total) / self._cells.rows
        return spread - known

    def variance_slopes(self, functions: Functions, target: Target) -> Floats:
        """Regression over the published rows of what one adds to the variance on what it adds to the estimate, w.

        That is w^2 - B h^2 of the randomisation, (w - mean)^2 of a population; a row counts for a function whose cell
        does. Exact for rows in two states (a value or not); of rows in one, over the states that they may be in.
        """
        found = np.zeros((2, 5, functions.size))  # rows, and sums of w, w^2, of the variance v and of v w
        for at in runs(self._cells.cells, functions.size * max(self.weights.states, self.values)):
            ((_, h),) = functions.planes(at).items()
            w = self.weights.forward(h)
            v = w**2 - (self.weights.forward(h**2) if target == "table" else 0.0)
            counts = (h != 0).any(axis=2)[:, :, None]
            for over, rows in zip(found, (self.published()[at][:, None, :] * counts, counts), strict=True):
                over += [(rows * x).sum(axis=(0, 2)) for x in (np.ones_like(w), w, w**2, v, v * w)]
        rows, first, squares, added, crossed = found.swapaxes(0, 1)
        mean = first / np.maximum(rows, 1e-300)
        known = (spread := squares - mean * first) > 1e-12 * squares
        slope = np.divide(crossed - mean * added, spread, out=np.zeros_like(rows), where=known)
        return np.where(known[0], slope[0], slope[1]) - 2 * mean[0] * (target == "population")


def sampling(functionals: Functionals, functions: Functions, cells: Cells) -> Floats:
    """(F, F): sum N h h' - (sum N h)(sum N h)' / n, what drawing the table's rows adds to a table's covariance."""
    found = np.zeros((functions.size, functions.size))
    for at in runs(cells.cells, functions.size * functionals.values):
        found += products(functionals.counts, functions.planes(at), at)
    total = functionals.value(functions)
    return found - np.outer(total, total) / cells.rows
