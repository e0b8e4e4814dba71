"""Estimates from keep-or-redraw channels on sub-tables: what `uniform` and `small-domain` share.

In sub-table i a value is kept with probability p_i, else redrawn uniformly from the m_i values of SA_i
(the draw may return it), so Pr(y | s) = p 1[y = s] + q with q = (1 - p) / m. Formulas: pp.md section 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..model.public import Asked, Codes, Estimated, Evidence, Floats, Observed
from .intervals import score_interval

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


@dataclass(slots=True)
class _Sums:
    """Running sums over sub-tables, (T, F); covariance (T, P)."""

    value: Floats
    variance: Floats
    covariance: Floats
    v0: Floats
    known: Floats  # rows that count whatever their true value is: part of `value`, without error
    rows: Floats  # the others
    slope: Floats
    weight: Floats


@dataclass(frozen=True, slots=True)
class _Part:
    """One sub-table as the question sees it: its channel, and how its values fall into C classes."""

    p: float
    q: float
    cols: NDArray[np.intp]  # the classes that hold a value of SA_i
    size: Floats  # how many values each holds
    total: Floats  # published rows of the whole sub-table, by class


def estimate(tables: SubTables, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
    """Unbiased estimates summed over sub-tables, with the spec's clipped variance and small-n score interval."""
    T, F, P = observed.strata, asked.functionals, len(asked.pairs)
    sums = _Sums(*(np.zeros((T, P if name == "covariance" else F)) for name in _Sums.__slots__))
    (classes,), (width,) = asked.classes, asked.shape
    totals = _totals_by_class(tables, evidence, asked)
    by_part = np.argsort(observed.part, kind="stable")
    edges = np.searchsorted(observed.part[by_part], np.arange(len(tables) + 1))
    for i in range(len(tables)):
        entries = by_part[edges[i] : edges[i + 1]]
        if len(entries):
            size = np.bincount(classes[tables.domain(i)], minlength=width).astype(float)
            cols = np.flatnonzero(size)
            part = _Part(float(tables.p[i]), float(tables.q[i]), cols, size[cols], totals[i][cols])
            _add_part(sums, part, observed, entries, asked)
    return _collect(sums, observed, asked)


def _totals_by_class(tables: SubTables, evidence: Evidence, asked: Asked) -> Floats:
    """Published rows of each whole sub-table, by class: they tell in which sub-tables a value's records lie."""
    part, codes, count = evidence.totals(asked.units)
    (classes,), (width,) = asked.classes, asked.shape
    flat = np.bincount(part * width + classes[codes[:, 0]], weights=count, minlength=len(tables) * width)
    return flat.reshape(len(tables), width).astype(float)


def _add_part(sums: _Sums, part: _Part, observed: Observed, entries: NDArray[np.intp], asked: Asked) -> None:
    column_of = np.zeros(asked.shape[0], dtype=np.intp)
    column_of[part.cols] = np.arange(len(part.cols))
    strata, t = np.unique(observed.stratum[entries], return_inverse=True)
    place = (t, column_of[observed.value[entries]])
    moments = [
        sp.csr_array((observed.moments[entries, j], place), shape=(len(strata), len(part.cols)))
        for j in range(observed.moments.shape[1])
    ]
    for b in np.unique(observed.pattern[strata]):
        here = np.flatnonzero(observed.pattern[strata] == b)
        H = asked.coefficients[b][:, part.cols]
        active = np.flatnonzero(np.diff(H.indptr))
        N = [moment[here] for moment in moments]
        if len(active):
            _add_values(sums, part, N, H[active], asked, np.ix_(strata[here], active), active)
        if len(asked.pairs):
            _add_covariance(sums, part, N, H, asked, strata[here])


def _add_values(
    sums: _Sums,
    part: _Part,
    N: list[sp.csr_array],
    H: sp.csr_array,
    asked: Asked,
    at: tuple[NDArray[np.intp], ...],
    active: NDArray[np.intp],
) -> None:
    p, measure = part.p, asked.measure[active]
    HH = H.power(2)
    b1, b2 = part.q * (H @ part.size), part.q * (HH @ part.size)

    def back(h: sp.csr_array, b: Floats, column: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """(e, n): e = (o - b n) / p for the moment that each functional uses."""
        o, n = np.zeros((N[0].shape[0], h.shape[0])), np.zeros((N[0].shape[0], h.shape[0]))
        for j in np.unique(column):
            f = np.flatnonzero(column == j)
            o[:, f], n[:, f] = (N[j] @ h[f].T).toarray(), N[j].sum(axis=1)[:, None]
        return (o - b * n) / p, n

    e1, _ = back(H, b1, asked.products[0, measure])
    e2, n2 = back(H, b1, asked.products[measure, measure])
    sums.value[at] += e1
    rows = N[0].sum(axis=1)[:, None]
    # A functional that takes every value of the sub-table counts its rows, exactly.
    indicator = asked.indicator[active]
    whole_domain = indicator & (np.diff(H.indptr) == H.shape[1])
    counted = indicator & ~whole_domain
    v0 = np.where(counted, b1 * (1 - b1) / p**2, 0.0)
    slope = np.where(counted, (1 - p - 2 * b1) / p, 0.0)
    clipped = n2 * v0 + slope * np.clip(e2, 0, n2)
    if not indicator.all():
        ehh, _ = back(HH, b2, asked.products[measure, measure])
        unbiased = (p * (1 - p) * ehh - 2 * p * b1 * e2 + n2 * (b2 - b1**2)) / p**2
        guarded = np.maximum(unbiased, n2 * _least_variance(H, b1, b2, p))
        clipped = np.where(indicator, clipped, guarded)
    sums.variance[at] += clipped
    sums.v0[at] += n2 * v0
    sums.known[at] += np.where(whole_domain, rows, 0.0)
    sums.rows[at] += np.where(whole_domain, 0.0, rows)
    whole = part.total.sum()
    share = np.where(whole_domain, 0.0, np.clip((H @ part.total - b1 * whole) / p, 1, max(whole, 1)))
    sums.slope[at] += share * slope
    sums.weight[at] += share


def _least_variance(H: sp.csr_array, b1: Floats, b2: Floats, p: float) -> Floats:
    """min over true values s of Var(w(Y) | s) = [p(1-p) h^2 - 2 p b h + b2 - b^2] / p^2, for each functional."""
    row = np.repeat(np.arange(H.shape[0]), np.diff(H.indptr))
    own = p * (1 - p) * H.data**2 - 2 * p * b1[row] * H.data
    least = np.where(np.diff(H.indptr) < H.shape[1], 0.0, np.inf)  # a value with h = 0
    np.minimum.at(least, row, own)
    return np.maximum(least + b2 - b1**2, 0.0) / p**2


def _add_covariance(
    sums: _Sums, part: _Part, N: list[sp.csr_array], H: sp.csr_array, asked: Asked, ahead: NDArray[np.intp]
) -> None:
    """Cov = sum over true s of N_s [p(1-p) h1 h2 - p b2 h1 - p b1 h2 + b12 - b1 b2] / p^2, with N_s estimated."""
    p = part.p
    for k, (f1, f2) in enumerate(asked.pairs):
        h1, h2 = H[[f1]].toarray()[0], H[[f2]].toarray()[0]
        M = N[asked.products[asked.measure[f1], asked.measure[f2]]]
        n = M.sum(axis=1)
        b1, b2, b12 = (part.q * float(h @ part.size) for h in (h1, h2, h1 * h2))
        e1, e2, e12 = ((M @ h - b * n) / p for h, b in ((h1, b1), (h2, b2), (h1 * h2, b12)))
        sums.covariance[ahead, k] += (p * (1 - p) * e12 - p * b2 * e1 - p * b1 * e2 + n * (b12 - b1 * b2)) / p**2


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
