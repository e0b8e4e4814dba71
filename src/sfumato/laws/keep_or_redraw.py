"""Estimates from keep-or-redraw channels on sub-tables: what `uniform` and `small-domain` share.

In sub-table i a value is kept with probability p_i, else redrawn uniformly from the m_i values of SA_i
(the draw may return it), so Pr(y | s) = p 1[y = s] + q with q = (1 - p) / m. [docs/explanation/uniform.md, 5]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..model.public import Asked, Codes, Estimated, Evidence, Floats, Integers, Observed
from ..stats.intervals import Line, second_cumulant, tail_interval, third_cumulant
from ..stats.joint_codes import sum_by_group
from ..stats.shuffling import either

# --- row sums ---------------------------------------------------------------------------------------------------------
# What a method adds up stratum by stratum, and the answers it makes of that: the same for values and for sets.


@dataclass(slots=True)
class RowSums:
    """Sums over sub-tables, (T, F); covariance (T, P)."""

    value: Floats
    variance: Floats
    covariance: Floats
    known: Floats  # rows that count whatever their true value is: part of `value`, without error
    rows: Floats  # the others
    v0: Floats  # variance and third cumulant of the value if no row has it ...
    k0: Floats
    slope: Floats  # ... and what a row that has it adds, times the weight
    kslope: Floats
    weight: Floats  # about how many records of the whole sub-tables count: where those of the value lie
    unit: Floats  # the largest step that one row can make

    @classmethod
    def zeros(cls, strata: int, functionals: int, pairs: int) -> RowSums:
        """Nothing added up yet."""
        return cls(*(np.zeros((strata, pairs if name == "covariance" else functionals)) for name in cls.__slots__))

    def collected(self, observed: Observed, asked: Asked) -> Estimated:
        """Strata of one output row added up; inverted tests for counts, normal ends for self."""

        def add(x: Floats) -> Floats:
            return sum_by_group(x, observed.key, observed.keys)

        # The slope of an output row whose strata have different ones is their average by rows.
        rows = add(self.rows)

        def average(x: Floats) -> Floats:
            of_stratum = np.divide(x, self.weight, out=np.zeros_like(x), where=self.weight > 0)
            return np.divide(add(of_stratum * self.rows), rows, out=np.zeros_like(rows), where=rows > 0)

        value, variance, known = add(self.value), np.maximum(add(self.variance), 0.0), add(self.known)
        half = asked.z * np.sqrt(variance)
        low, high = value - half, value + half
        f = np.flatnonzero((asked.measure == 0) & asked.indicator)
        inverted = np.zeros(value.shape, dtype=bool)
        inverted[:, f] = True
        unit = np.zeros_like(value)
        np.maximum.at(unit, observed.key, self.unit)
        v = Line(constant=add(self.v0)[:, f], slope=average(self.slope)[:, f])
        k = Line(constant=add(self.k0)[:, f], slope=average(self.kslope)[:, f])
        hit = unit[:, f] if asked.full else 0.0
        ends = tail_interval((value - known)[:, f], v, k, asked.alpha, 0.0, rows[:, f], hit)
        low[:, f], high[:, f] = (known[:, f] + end for end in ends)
        return Estimated(
            value=value, variance=variance, low=low, high=high, covariance=add(self.covariance), inverted=inverted
        )


# --- perturbation -----------------------------------------------------------------------------------------------------


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
    drawn = domain.take(rng.integers(0, len(domain), size=len(codes), dtype=np.uint32))
    return either(kept, codes.astype(np.int32, copy=False), drawn)


def perturb_parts(tables: SubTables, codes: Codes, part: NDArray[np.int64], rng: np.random.Generator) -> Codes:
    """`perturb` for rows of several sub-tables at once: row r through the channel of sub-table `part[r]`."""
    keep = (tables.p * 2**32).astype(np.uint64)  # rounds down
    kept = rng.integers(0, 2**32, size=len(codes), dtype=np.uint32) < keep[part]
    drawn = tables.values[tables.start[part] + rng.integers(0, np.diff(tables.start)[part])]
    return either(kept, codes.astype(np.int32, copy=False), drawn)


@dataclass(frozen=True, slots=True)
class _TableCells:
    """All sub-tables side by side: a column for each class of values that a sub-table holds.

    Rows of `moments` are the observed pairs (stratum, sub-table); a pair has entries in its sub-table's columns only.
    """

    part: NDArray[np.intp]  # sub-table of each column
    class_: NDArray[np.intp]  # class of each column
    size: Floats  # values of that class in the sub-table
    total: Floats  # published rows of the whole sub-table that show one
    stratum: NDArray[np.intp]  # of each pair
    pair_part: NDArray[np.intp]
    moments: list[csr_array]


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


def estimate(tables: SubTables, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
    """Unbiased estimates summed over sub-tables, the variance at the cut estimate, counts with inverted tests."""
    T, F, P = observed.strata, asked.functionals, len(asked.pairs)
    sums = RowSums.zeros(T, F, P)
    cells = _cells(tables, evidence, observed, asked)
    pattern = observed.pattern[cells.stratum]
    for b in np.unique(pattern):
        H = asked.coefficients[b][:, cells.class_]  # (F, columns)
        pairs = np.flatnonzero(pattern == b)
        _add_values(sums, _active(tables, cells, H, pairs), cells, H, asked)
        if P:
            _add_covariance(sums, tables, cells, H, asked, pairs)
    return sums.collected(observed, asked)


def _cells(tables: SubTables, evidence: Evidence, observed: Observed, asked: Asked) -> _TableCells:
    (classes,), (width,) = asked.classes, asked.shape
    part_of_value = np.repeat(np.arange(len(tables)), np.diff(tables.start))
    column, size = np.unique(part_of_value * width + classes[tables.values], return_counts=True)
    pair, row = np.unique(observed.stratum * len(tables) + observed.part, return_inverse=True)
    at = (row, np.searchsorted(column, observed.part * width + observed.value))
    moments = [csr_array((moment, at), shape=(len(pair), len(column))) for moment in observed.moments.T]
    total = np.zeros(len(column))
    if len(tables) > 1:  # the interval of a count asks in which sub-tables a value's records lie
        part, codes, count = evidence.totals(asked.units)
        where = np.searchsorted(column, part * width + classes[codes[:, 0]])
        total = np.bincount(where, weights=count, minlength=len(column)).astype(float)
    return _TableCells(
        column // width, column % width, size.astype(float), total, pair // len(tables), pair % len(tables), moments
    )


def _active(tables: SubTables, cells: _TableCells, H: csr_array, pairs: NDArray[np.intp]) -> _Active:
    """Sums of h over each sub-table, once for each (sub-table, functional), then laid out by pair."""
    F = H.shape[0]
    functional = H.tocoo().row
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


def _add_values(sums: RowSums, on: _Active, cells: _TableCells, H: csr_array, asked: Asked) -> None:
    """The formulas of docs/explanation/small-domain.md, 5, for every active combination, added up by stratum."""
    measure = asked.measure[on.functional]
    at = cells.stratum[on.pair], on.functional

    def back(h: csr_array, b: Floats, column: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """(e, n): e = (o - b n) / p for the moment that each functional uses."""
        o, n = np.zeros(len(column)), np.zeros(len(column))
        for j in np.unique(column):
            k = np.flatnonzero(column == j)
            o[k] = (cells.moments[j] @ h.T)[on.pair[k], on.functional[k]]
            n[k] = cells.moments[j].sum(axis=1)[on.pair[k]]
        return (o - b * n) / on.p, n

    e1, _ = back(H, on.b1, asked.products[0, measure])
    e2, n2 = back(H, on.b1, asked.products[measure, measure])
    rows = cells.moments[0].sum(axis=1)[on.pair]
    # A functional that takes every value of the sub-table counts its rows, exactly.
    indicator = asked.indicator[on.functional]
    exact = on.constant & indicator
    counted = indicator & ~exact
    v0, slope = _cumulant(second_cumulant, on, counted, 2)
    k0, kslope = _cumulant(third_cumulant, on, counted, 3)
    variance = n2 * v0 + slope * np.clip(e2, 0, n2)
    if not indicator.all():
        ehh, _ = back(H.power(2), on.b2, asked.products[measure, measure])
        unbiased = (on.p * (1 - on.p) * ehh - 2 * on.p * on.b1 * e2 + n2 * (on.b2 - on.b1**2)) / on.p**2
        variance = np.where(indicator, variance, np.maximum(unbiased, n2 * on.least))
    share = np.where(exact, 0.0, np.clip((on.total - on.b1 * on.whole) / on.p, 1, np.maximum(on.whole, 1)))
    for total, term in (
        (sums.value, e1),
        (sums.variance, variance),
        (sums.known, np.where(exact, rows, 0.0)),
        (sums.rows, np.where(exact, 0.0, rows)),
        (sums.v0, n2 * v0),
        (sums.k0, n2 * k0),
        (sums.slope, share * slope),
        (sums.kslope, share * kslope),
        (sums.weight, share),
    ):
        np.add.at(total, at, term)
    np.maximum.at(sums.unit, at, np.where(exact, 0.0, 1.0 / on.p))


def _cumulant(
    cumulant: Callable[[Floats], Floats], on: _Active, counted: NDArray[np.bool_], power: int
) -> tuple[Floats, Floats]:
    """(that of a row without the value, what a row with it has more), for weights of 1/p."""
    without, with_value = (cumulant(b) / on.p**power for b in (on.b1, on.p + on.b1))
    return np.where(counted, without, 0.0), np.where(counted, with_value - without, 0.0)


def _add_covariance(
    sums: RowSums, tables: SubTables, cells: _TableCells, H: csr_array, asked: Asked, pairs: NDArray[np.intp]
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


# --- predicted error --------------------------------------------------------------------------------------------------
# Standard errors that a plan's answers will have, before anything is published.


def standard_errors(tables: SubTables, true_counts: Integers, values: int) -> Floats:
    """The standard error of the estimated total of every value, by code; 0 for values that occur nowhere.

    `true_counts[k]` are the records of value `tables.values[k]` in the sub-table it is listed for.
    Var = sum_i [ f_i (p+q)(1-p-q) + (n_i - f_i) q (1-q) ] / p^2 over the sub-tables that hold the value.
    """
    width = np.diff(tables.start)
    p, q = np.repeat(tables.p, width), np.repeat(tables.q, width)
    n = np.repeat(np.add.reduceat(true_counts, tables.start[:-1]), width)
    variance = (true_counts * (p + q) * (1 - p - q) + (n - true_counts) * q * (1 - q)) / p**2
    return np.sqrt(np.bincount(tables.values, weights=variance, minlength=values))
