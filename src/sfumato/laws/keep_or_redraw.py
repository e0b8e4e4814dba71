"""keep-or-redraw: a value stays with probability p, else it is redrawn uniformly; in every sub-table by itself.

In sub-table i a value is kept with probability p_i, else redrawn uniformly from the m_i values of SA_i
(the draw may return it), so Pr(y | s) = p 1[y = s] + q with q = (1 - p) / m. [docs/explanation/uniform.md, 5]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..errors import ReleaseError, VerificationError
from ..model.private import Batch, Profile, Released, Work
from ..model.public import Asked, Codes, Domain, Estimated, Evidence, Floats, Integers, Likelihood, Observed, Published
from ..stats.gamma import keep_probabilities
from ..stats.intervals import second_cumulant, third_cumulant
from ..stats.joint_codes import sum_by_group
from .expected import Foresight, entries, pushed, tensor, together
from .functionals import (
    Cells,
    CodedUnit,
    Functionals,
    IndependentRows,
    KroneckerWeights,
    SetListWeights,
    redraw_weights,
)
from .published import check_floor, published_table
from .sub_tables import PART, RowSums, SubTableLaw


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
    return np.where(kept, codes.astype(np.int32, copy=False), drawn)


def perturb_parts(tables: SubTables, codes: Codes, part: NDArray[np.int64], rng: np.random.Generator) -> Codes:
    """`perturb` for rows of several sub-tables at once: row r through the channel of sub-table `part[r]`."""
    keep = (tables.p * 2**32).astype(np.uint64)  # rounds down
    kept = rng.integers(0, 2**32, size=len(codes), dtype=np.uint32) < keep[part]
    drawn = tables.values[tables.start[part] + rng.integers(0, np.diff(tables.start)[part])]
    return np.where(kept, codes.astype(np.int32, copy=False), drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOrRedraw(SubTableLaw):
    """Every value kept with its sub-table's p, else redrawn from the sub-table's values."""

    name = "keep-or-redraw"
    formula = "w = (h - q sum h) / p; Var = n b(1-b)/p^2 + f (1-p-2b)/p, f cut to [0, n]; counts: inverted test"
    lumpable = True

    @property
    def channels(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """(p, q) of every sub-table, exact."""
        widths = [self.values] if self.domains is None else map(len, self.domains)
        return tuple(keep_probabilities(gamma, width) for gamma, width in zip(self.gammas, widths, strict=True))

    @property
    def tables(self) -> SubTables:
        """The same as arrays."""
        return _tables(self)

    def _fitting(self, evidence: Evidence) -> SubTables:
        """The channels; ReleaseError where the release states another domain than it lists."""
        if self.values != len(evidence.domains[0]):
            raise ReleaseError(f"release.json states {self.values} values and lists {len(evidence.domains[0])}")
        return self.tables

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Every value kept with probability p, else redrawn; the sub-table is published."""
        (codes,), tables = batch.codes, self.tables
        if self.domains is None:
            return Released(codes=(perturb(codes, tables.domain(0), float(tables.p[0]), rng),))
        (part,) = batch.labels
        return Released(codes=(perturb_parts(tables, codes, part, rng),), extra={PART: part})

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Sub-table by sub-table, then added up."""
        return estimate(self._fitting(evidence), evidence, observed, asked)

    def functionals(self, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
        """Rows are independent given their sub-table, which is published; a state is (sub-table, value)."""
        (unit,), tables = units, self.tables
        if self.domains is None:
            B = redraw_weights(float(tables.p[0]), float(tables.q[0]), np.bincount(unit.classes))
            return IndependentRows(cells, KroneckerWeights(axes=(B,), shape=(len(B),)))
        blocks = []
        for i in range(len(tables)):
            held, sizes = np.unique(unit.classes[tables.domain(i)], return_counts=True)
            blocks.append((held.astype(np.intp), redraw_weights(float(tables.p[i]), float(tables.q[i]), sizes)))
        weights = PartWeights(blocks=tuple(blocks), values=unit.size)
        return IndependentRows(cells, weights, weights.state[cells.part, cells.value])

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """Every sub-table by itself."""
        return redrawn(self._fitting(evidence), evidence)

    def check_drawn(self, published: Published) -> None:
        """Every sub-table shows its own values, none too rarely for its channel."""
        part, codes, count = published.evidence.totals((0,))
        table = sum_by_group(count, (part, codes[:, 0]), (len(self.gammas), self.values))
        for i, (_, q) in enumerate(self.channels):
            mine = table[i, self.of_table(i)]
            if mine.sum() != table[i].sum():
                raise VerificationError("a row publishes a value that its sub-table does not have")
            check_floor(mine, float(q), self.where(i), tests=len(self.gammas))

    def channel(self, work: Work, profile: Profile) -> Floats:
        """Each sub-table's channel, weighted by the share of a value's records that the plan puts there."""
        share, tables = self.shares(work, profile), self.tables
        made = np.zeros((self.values, self.values))
        for i in range(len(tables)):
            values = tables.domain(i)
            own = tables.p[i] * np.eye(len(values)) + tables.q[i]
            made[np.ix_(values, values)] += share[i, values][:, None] * own
        return made

    def retention(self) -> float:
        """p averaged over records."""
        sizes = np.array(self.sizes or [1], dtype=float)
        return float(self.tables.p @ sizes / sizes.sum())

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts: p of a class plus its share of everything that its sub-table redraws."""
        tables, share, true_counts = self.tables, self.shares(work, profile), profile.true_counts().astype(float)
        whole = self.domains is None  # then values may be counted together before the channel acts

        def of_table(seen: Floats, classes: Codes | Integers, i: int) -> Floats:
            inside = np.bincount(classes[tables.domain(i)], minlength=seen.shape[-1])
            moved = seen if whole else seen * share[i]
            return tables.p[i] * moved + tables.q[i] * moved.sum(axis=-1, keepdims=True) * inside

        def push(observed: Observed, asked: Asked) -> Observed:
            (classes,), seen = asked.classes, tensor(observed, asked.shape[0])
            return together([entries(observed, of_table(seen, classes, i), i) for i in range(len(tables))])

        def totals(_: tuple[int, ...]) -> tuple[Integers, Codes, Floats]:
            every = np.arange(self.values)
            count = np.array([of_table(true_counts, every, i) for i in range(len(tables))])
            part, code = np.nonzero(count)
            return part.astype(np.int64), code[:, None].astype(np.int32), count[part, code]

        return pushed(self, push, totals, profile, domains, lump=whole)


@lru_cache(maxsize=4)  # every batch and every question asks for them
def _tables(law: KeepOrRedraw) -> SubTables:
    of_tables = [law.of_table(i) for i in range(len(law.gammas))]
    kinds = {kind: tuple(map(float, kind)) for kind in set(law.channels)}
    p, q = np.array([kinds[kind] for kind in law.channels]).T
    return SubTables(start=np.cumsum([0, *map(len, of_tables)]), values=np.concatenate(of_tables), p=p, q=q)


def redrawn(tables: SubTables, evidence: Evidence, unit: int = 0) -> Likelihood:
    """What rows tell of sub-tables that keep a value with p, else redraw it: n_ix = (o - q n_i) / p, cut at 0."""
    seen = published_table(evidence, unit, len(tables))
    inside = np.zeros(seen.shape, dtype=bool)
    inside[np.repeat(np.arange(len(tables)), np.diff(tables.start)), tables.values] = True
    estimate = (seen - tables.q[:, None] * seen.sum(axis=1, keepdims=True)) / tables.p[:, None]

    def chance(part: Integers, shown: Codes) -> Floats:
        found: Floats = inside[part] * tables.q[part][:, None]
        found[np.arange(len(shown)), shown] += tables.p[part]
        return found

    return Likelihood(counts=np.where(inside, np.maximum(estimate, 0.0), 0.0), chance=chance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartWeights(SetListWeights):
    """B with a state for every (sub-table, value in it); a value has no weight where a sub-table does not hold it.

    Its records are then in other sub-tables: dealing them out at random adds no error, because all are counted.
    """

    state: NDArray[np.intp] = field(init=False)  # [sub-table, value], -1 where there is none

    def __post_init__(self) -> None:
        SetListWeights.__post_init__(self)
        start = self._start()
        state = np.full((len(self.blocks), self.values), -1, dtype=np.intp)
        for i, (held, _) in enumerate(self.blocks):
            state[i, held] = np.arange(start[i], start[i + 1])
        object.__setattr__(self, "state", state)


# --- answers ----------------------------------------------------------------------------------------------------------


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
