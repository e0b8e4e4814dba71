"""Estimates from keep-or-redraw channels on sub-tables: what `uniform` and `small-domain` share.

In sub-table i a value is kept with probability p_i, else redrawn uniformly from the m_i values of SA_i
(the draw may return it), so Pr(y | s) = p 1[y = s] + q with q = (1 - p) / m. [docs/explanation/uniform.md, 5]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...model.public import Asked, Codes, Estimated, Evidence, Floats, Observed
from ...stats.intervals import score_interval

SMALL = 1000  # below this many rows the score interval is used


@dataclass(frozen=True, slots=True, kw_only=True)
class SubTables:
    """The channels: sub-table i draws from the domain codes `values[start[i]:start[i + 1]]`."""

    start: NDArray[np.int64]
    values: Codes
    p: Floats
    q: Floats

    def __len__(self) -> int:
        return len(self.p)

    def domain(self, i: int) -> Codes:
        """SA_i."""
        return self.values[self.start[i] : self.start[i + 1]]


def perturb(codes: Codes, domain: Codes, p: float, rng: np.random.Generator) -> Codes:
    """Each code kept with probability p (rounded down to a multiple of 2^-32), else a uniform draw from `domain`."""
    kept = rng.integers(0, 2**32, size=len(codes), dtype=np.uint32) < np.uint64(int(p * 2**32))
    drawn = domain[rng.integers(0, len(domain), size=len(codes), dtype=np.uint32)]
    return np.where(kept, codes, drawn).astype(np.int32, copy=False)


def perturb_parts(tables: SubTables, codes: Codes, part: NDArray[np.int64], rng: np.random.Generator) -> Codes:
    """`perturb` for rows of several sub-tables at once: row r through the channel of sub-table `part[r]`."""
    keep = (tables.p * 2**32).astype(np.uint64)  # rounds down
    kept = rng.integers(0, 2**32, size=len(codes), dtype=np.uint32) < keep[part]
    drawn = tables.values[tables.start[part] + rng.integers(0, np.diff(tables.start)[part])]
    return np.where(kept, codes, drawn).astype(np.int32, copy=False)


@dataclass(frozen=True, slots=True)
class _Cells:
    """All sub-tables side by side: a column for each class of values that a sub-table holds.

    Rows of `moments` are the observed pairs (stratum, sub-table); a pair has entries in its sub-table's columns only.
    """

    part: NDArray[np.intp]  # sub-table of each column
    class_: NDArray[np.intp]  # class of each column
    size: Floats  # values of that class in the sub-table
    total: Floats  # published rows of the whole sub-table that show one
    stratum: NDArray[np.intp]  # of each pair
    pair_part: NDArray[np.intp]
    moments: list[sp.csr_array]


@dataclass(frozen=True, slots=True)
class _Active:
    """The (pair, functional) combinations in which the functional tells values of the sub-table apart, flat."""

    pair: NDArray[np.intp]
    functional: NDArray[np.intp]
    p: Floats
    b1: Floats  # q times the sum of h over the sub-table's values
    b2: Floats  # the same for h^2
    total: Floats  # the sum of h over all published rows of the sub-table
    whole: Floats  # those rows
    constant: NDArray[np.bool_]  # h is not 0 for any value of the sub-table
    least: Floats  # the least variance that one row can add


@dataclass(slots=True)
class _Sums:
    """Sums over sub-tables, (T, F); covariance (T, P)."""

    value: Floats
    variance: Floats
    covariance: Floats
    v0: Floats
    known: Floats  # rows that count whatever their true value is: part of `value`, without error
    rows: Floats  # the others
    slope: Floats
    weight: Floats


def estimate(tables: SubTables, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
    """Unbiased estimates summed over sub-tables, the variance at the cut estimate, a score interval for small n."""
    T, F, P = observed.strata, asked.functionals, len(asked.pairs)
    sums = _Sums(*(np.zeros((T, P if name == "covariance" else F)) for name in _Sums.__slots__))
    cells = _cells(tables, evidence, observed, asked)
    pattern = observed.pattern[cells.stratum]
    for b in np.unique(pattern):
        H = asked.coefficients[b][:, cells.class_]  # (F, columns)
        pairs = np.flatnonzero(pattern == b)
        _add_values(sums, _active(tables, cells, H, pairs), cells, H, asked)
        if P:
            _add_covariance(sums, tables, cells, H, asked, pairs)
    return _collect(sums, observed, asked)


def _cells(tables: SubTables, evidence: Evidence, observed: Observed, asked: Asked) -> _Cells:
    (classes,), (width,) = asked.classes, asked.shape
    part_of_value = np.repeat(np.arange(len(tables)), np.diff(tables.start))
    column, size = np.unique(part_of_value * width + classes[tables.values], return_counts=True)
    pair, row = np.unique(observed.stratum * len(tables) + observed.part, return_inverse=True)
    at = (row, np.searchsorted(column, observed.part * width + observed.value))
    moments = [
        sp.csr_array((observed.moments[:, j], at), shape=(len(pair), len(column)))
        for j in range(observed.moments.shape[1])
    ]
    total = np.zeros(len(column))
    if (moments[0].sum(axis=1) < SMALL).any():  # the score set asks in which sub-tables a value's records lie
        part, codes, count = evidence.totals(asked.units)
        where = np.searchsorted(column, part * width + classes[codes[:, 0]])
        total = np.bincount(where, weights=count, minlength=len(column)).astype(float)
    return _Cells(
        column // width, column % width, size.astype(float), total, pair // len(tables), pair % len(tables), moments
    )


def _active(tables: SubTables, cells: _Cells, H: sp.csr_array, pairs: NDArray[np.intp]) -> _Active:
    """Sums of h over each sub-table, once for each (sub-table, functional), then laid out by pair."""
    F = H.shape[0]
    functional = np.repeat(np.arange(F), np.diff(H.indptr))
    combo, at = np.unique(cells.part[H.indices] * F + functional, return_inverse=True)
    part, f = combo // F, combo % F
    p, q = tables.p[part], tables.q[part]
    size, h = cells.size[H.indices], H.data

    def add(weights: Floats) -> Floats:
        return np.bincount(at, weights=weights, minlength=len(combo)).astype(float)

    b1, b2, total = q * add(size * h), q * add(size * h**2), add(cells.total[H.indices] * h)
    constant = add(np.ones(len(h))) == np.bincount(cells.part, minlength=len(tables))[part]
    # min over true values of Var(w(Y) | value) = [p(1-p) h^2 - 2 p b h + b2 - b^2] / p^2; h is 0 somewhere or constant
    least = np.where(constant, np.inf, 0.0)
    np.minimum.at(least, at, (p * (1 - p))[at] * h**2 - 2 * (p * b1)[at] * h)
    least = np.maximum(least + b2 - b1**2, 0.0) / p**2
    whole = np.bincount(cells.part, weights=cells.total, minlength=len(tables))[part]
    start = np.searchsorted(part, np.arange(len(tables) + 1))
    mine = cells.pair_part[pairs]
    length = np.diff(start)[mine]
    stop = np.cumsum(length)
    flat = np.arange(stop[-1] if len(stop) else 0) + np.repeat(start[mine] + length - stop, length)
    by_combo = (f, p, b1, b2, total, whole, constant, least)
    return _Active(np.repeat(pairs, length), *(x[flat] for x in by_combo))


def _add_values(sums: _Sums, on: _Active, cells: _Cells, H: sp.csr_array, asked: Asked) -> None:
    """The formulas of docs/explanation/small-domain.md, 5, for every active combination, added up by stratum."""
    measure = asked.measure[on.functional]
    at = cells.stratum[on.pair], on.functional

    def back(h: sp.csr_array, b: Floats, column: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """(e, n): e = (o - b n) / p for the moment that each functional uses."""
        o, n = np.zeros(len(column)), np.zeros(len(column))
        for j in np.unique(column):
            k = np.flatnonzero(column == j)
            o[k] = _lookup((cells.moments[j] @ h.T).tocsr(), on.pair[k], on.functional[k])
            n[k] = cells.moments[j].sum(axis=1)[on.pair[k]]
        return (o - b * n) / on.p, n

    e1, _ = back(H, on.b1, asked.products[0, measure])
    e2, n2 = back(H, on.b1, asked.products[measure, measure])
    rows = cells.moments[0].sum(axis=1)[on.pair]
    # A functional that takes every value of the sub-table counts its rows, exactly.
    indicator = asked.indicator[on.functional]
    exact = on.constant & indicator
    counted = indicator & ~exact
    v0 = np.where(counted, on.b1 * (1 - on.b1) / on.p**2, 0.0)
    slope = np.where(counted, (1 - on.p - 2 * on.b1) / on.p, 0.0)
    variance = n2 * v0 + slope * np.clip(e2, 0, n2)
    if not indicator.all():
        ehh, _ = back(H.power(2), on.b2, asked.products[measure, measure])
        unbiased = (on.p * (1 - on.p) * ehh - 2 * on.p * on.b1 * e2 + n2 * (on.b2 - on.b1**2)) / on.p**2
        variance = np.where(indicator, variance, np.maximum(unbiased, n2 * on.least))
    share = np.where(exact, 0.0, np.clip((on.total - on.b1 * on.whole) / on.p, 1, np.maximum(on.whole, 1)))
    for name, term in (
        ("value", e1),
        ("variance", variance),
        ("v0", n2 * v0),
        ("known", np.where(exact, rows, 0.0)),
        ("rows", np.where(exact, 0.0, rows)),
        ("slope", share * slope),
        ("weight", share),
    ):
        np.add.at(getattr(sums, name), at, term)


def _lookup(matrix: sp.csr_array, row: NDArray[np.intp], column: NDArray[np.intp]) -> Floats:
    """matrix[row[k], column[k]] for all k."""
    matrix.sort_indices()
    width = matrix.shape[1]
    keys = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * width + matrix.indices
    wanted = row * width + column
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    found = keys[place] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
    return np.where(found, matrix.data[place] if len(keys) else 0.0, 0.0)


def _add_covariance(
    sums: _Sums, tables: SubTables, cells: _Cells, H: sp.csr_array, asked: Asked, pairs: NDArray[np.intp]
) -> None:
    """Cov = sum over true s of N_s [p(1-p) h1 h2 - p b2 h1 - p b1 h2 + b12 - b1 b2] / p^2, with N_s estimated."""
    mine = cells.pair_part[pairs]
    p, q = tables.p[mine], tables.q[mine]
    for k, (f1, f2) in enumerate(asked.pairs):
        h1, h2 = H[[f1]].toarray()[0], H[[f2]].toarray()[0]
        M = cells.moments[asked.products[asked.measure[f1], asked.measure[f2]]][pairs]
        n = M.sum(axis=1)
        b1, b2, b12 = (
            q * np.bincount(cells.part, weights=cells.size * h, minlength=len(tables))[mine] for h in (h1, h2, h1 * h2)
        )
        e1, e2, e12 = ((M @ h - b * n) / p for h, b in ((h1, b1), (h2, b2), (h1 * h2, b12)))
        term = (p * (1 - p) * e12 - p * b2 * e1 - p * b1 * e2 + n * (b12 - b1 * b2)) / p**2
        np.add.at(sums.covariance[:, k], cells.stratum[pairs], term)


def _collect(sums: _Sums, observed: Observed, asked: Asked) -> Estimated:
    """Strata of one output row added up, and the interval rule: score set below 1000 rows, else clipped normal."""

    def add(x: Floats) -> Floats:
        out = np.zeros((observed.keys, x.shape[1]))
        np.add.at(out, observed.key, x)
        return out

    # The slope of an output row whose strata have different ones is their average by rows.
    slope_t = np.divide(sums.slope, sums.weight, out=np.zeros_like(sums.slope), where=sums.weight > 0)
    rows, weighted = add(sums.rows), add(slope_t * sums.rows)
    slope = np.divide(weighted, rows, out=np.zeros_like(rows), where=rows > 0)
    value, variance, known = add(sums.value), np.maximum(add(sums.variance), 0.0), add(sums.known)
    half = asked.z * np.sqrt(variance)
    low, high = value - half, value + half
    counting = np.broadcast_to((asked.measure == 0) & asked.indicator, value.shape) & (rows < SMALL)
    score_low, score_high = score_interval(value - known, add(sums.v0), slope, asked.z)
    low, high = np.where(counting, known + score_low, low), np.where(counting, known + score_high, high)
    return Estimated(value=value, variance=variance, low=low, high=high, covariance=add(sums.covariance))
