"""independent-columns: every column keeps its value with a probability of its own, else shows another one.

Variances and intervals of questions about one randomised column: a row that counts is released inside the condition's
values with chance theta + b, any other with chance b = q |values|. So the variance of a sum needs the sum of g^2 over
the rows (known) and over those that count (estimated and cut to what is possible), and counts have cumulants that are
linear in the truth: docs/explanation/intervals.md, 2 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..errors import ReleaseError, VerificationError
from ..model.private import Batch, Profile, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Floats, Likelihood, Observed, Published
from ..stats.intervals import Line, count_cumulants, few_changes, tail_interval
from ..stats.kronecker import (
    AxisMap,
    apply_maps,
    apply_transposed,
    channel,
    check_keep,
    inverse,
    squared,
    theta_of_keep,
)
from .contract import Law
from .expected import Foresight, entries, pushed, tensor
from .functionals import Cells, CodedUnit, Functionals, IndependentRows, KroneckerWeights, redraw_weights
from .keep_or_redraw import SubTables, redrawn
from .published import check_floor, published_counts

Code = TypeVar("Code", bound=np.integer)


def randomise_codes(codes: NDArray[Code], *, keep: float, size: int, rng: np.random.Generator) -> NDArray[Code]:
    """A new array of codes in 0..size-1; a copy of the old one if keep is 1.

    Moving by a uniform non-zero step modulo d reaches each other code once, so q = (1 - p) / (d - 1). The coin has 32
    bits: p is rounded down to a multiple of 2^-32.
    """
    if keep >= 1.0 or size == 1 or not len(codes):
        return codes.copy()
    moved = np.flatnonzero(rng.integers(0, 2**32, len(codes), dtype=np.uint32) >= np.uint32(int(keep * 2**32)))
    there = codes.take(moved).astype(np.int64)
    there += rng.integers(1, size, len(moved), dtype=np.uint32)
    out = codes.copy()
    there -= size * (there >= size)
    out[moved] = there
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentColumns(Law):
    """Columns with their sizes and keep probabilities, in the order of the units."""

    name = "independent-columns"
    formula = (
        "w = P^-T h over the classes of the mentioned columns; Var = sum w^2 - P^-T h^2; z sqrt(Var + z^2 max|w|^2 / 4)"
    )
    lumpable = True
    independent_rows = True

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    keep: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.columns) == len(self.sizes) == len(self.keep):
            raise ValueError("one size and one keep probability per column")
        for name, size, p in zip(self.columns, self.sizes, self.keep, strict=True):
            check_keep(p, size, name)

    @property
    def thetas(self) -> tuple[float, ...]:
        """The share of the contrast between two values of each column that survives."""
        return tuple(1.0 if p >= 1 else theta_of_keep(p, d) for p, d in zip(self.keep, self.sizes, strict=True))

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Every randomised column on its own; the others are left as they are."""
        new = [
            randomise_codes(codes, keep=p, size=d, rng=rng)
            for codes, p, d in zip(batch.codes, self.keep, self.sizes, strict=False)
        ]
        return Released(codes=(*new, *[None] * (len(batch.codes) - len(new))))

    def released_domains(self, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
        """Values stay in their domains."""
        if not self._fits(domains[: len(self.columns)]):
            raise ReleaseError("release.json states keep probabilities that do not fit its columns")
        return domains

    def _fits(self, domains: Sequence[Domain]) -> bool:
        stated = tuple(zip(self.columns, self.sizes, strict=True))
        return tuple((domain.columns[0], len(domain)) for domain in domains) == stated

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """By the Kronecker product of the columns' inverse channels."""
        return estimate([self.thetas[u] for u in asked.units], observed, asked)

    def axes(self) -> tuple[float, ...]:
        """theta of every unit."""
        return self.thetas

    def functionals(self, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
        """The Kronecker product of the columns' channels."""
        axes: list[Floats | None] = []
        for unit in units:
            theta = self.thetas[unit.unit]
            q = (1 - theta) / len(unit.classes)
            axes.append(None if theta == 1.0 else redraw_weights(theta, q, np.bincount(unit.classes)))
        weights = KroneckerWeights(axes=tuple(axes), shape=tuple(unit.size for unit in units))
        return IndependentRows(cells, weights)

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """The column's own channel."""
        theta, size = self.thetas[unit], self.sizes[unit]
        table = SubTables(
            start=np.array([0, size]),
            values=np.arange(size, dtype=np.int32),
            p=np.array([theta]),
            q=np.array([(1 - theta) / size]),
        )
        return redrawn(table, evidence, unit)

    def check(self, published: Published) -> None:
        """The columns are those that were randomised, and show every value at least as often as the noise does."""
        if not published.evidence.domains:
            raise VerificationError("release.json names no column that was randomised")
        if not self._fits(published.evidence.domains):
            raise VerificationError("keep probabilities are stated for other columns than those that were randomised")
        noisy = [u for u, keep in enumerate(self.keep) if keep < 1]
        for u in noisy:
            q = (1 - self.keep[u]) / (self.sizes[u] - 1)
            check_floor(published_counts(published, u), q, f'column "{self.columns[u]}"', tests=len(noisy))

    def channel(self, work: Work, profile: Profile) -> Floats:
        """The first randomised column's channel."""
        keep, size = self.keep[0], self.sizes[0]
        other = (1 - keep) / (size - 1)
        return (keep - other) * np.eye(size) + other

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts by the Kronecker product of the columns' channels."""

        def push(observed: Observed, asked: Asked) -> Observed:
            maps = [
                channel(self.thetas[u], len(c), np.bincount(c)) for u, c in zip(asked.units, asked.classes, strict=True)
            ]
            seen = tensor(observed, int(np.prod(asked.shape)))
            moved = apply_maps(maps, seen.reshape(*seen.shape[:2], *asked.shape))
            return entries(observed, moved.reshape(seen.shape))

        return pushed(self, push, None, profile, domains, lump=True)


@dataclass(frozen=True, slots=True)
class OneColumn:
    """(K, F) arrays; `counts` are the functionals that have an interval here, `alike` those with a variance."""

    variance: Floats
    low: Floats
    high: Floats
    counts: NDArray[np.bool_]  # (F,)
    alike: NDArray[np.bool_]  # (F,) every coefficient is 0 or 1


def one_column(theta: float, observed: Observed, asked: Asked, value: Floats) -> OneColumn:
    """Variance at the cut estimate for conditions on one column, and the inverted test for their counts."""
    K, F = value.shape
    (classes,) = asked.classes
    sizes = np.bincount(classes).astype(np.float64)
    variance, known, rows, v0, k0, vslope, kslope, looks = (np.zeros((K, F)) for _ in range(8))
    pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
    alike = asked.indicator
    for p in np.unique(pattern):
        here = np.flatnonzero(pattern == p)
        H = asked.coefficients[p]
        held = H @ sizes
        b = (1.0 - theta) / len(classes) * held  # chance that a row which does not count looks as if it did
        whole, some = held == len(classes), (held > 0) & (held < len(classes))

        def table(column: int, here: NDArray[np.intp] = here, shape: tuple[int, int] = (K, H.shape[1])) -> csr_array:
            return csr_array((observed.moments[here, column], (key[here], observed.value[here])), shape=shape)

        n = table(0).sum(axis=1).reshape(-1, 1)
        mixed = (rows > 0) & (n * some > 0) & (looks != b)  # conditions that rows look like with different chances
        looks = np.where(mixed, np.nan, np.where(n * some > 0, b, looks))
        known += n * whole
        rows += n * some
        one_v, one_k = count_cumulants(np.ones(F), theta, b)
        v0 += n * some * one_v.constant
        k0 += n * some * one_k.constant
        vslope += n * some * one_v.slope
        kslope += n * some * one_k.slope
        for g in np.unique(asked.measure):
            f = np.flatnonzero((asked.measure == g) & some & alike)
            squares = table(int(asked.products[g, g]))
            everyone = squares.sum(axis=1).reshape(-1, 1)
            counted = ((squares @ H[f].T).toarray() - b[f] * everyone) / theta
            # Var = other G2 + (own - other) E2 with E2 cut to what is possible
            other, more = (np.broadcast_to(x, F)[f] for x in (one_v.constant, one_v.slope))
            variance[:, f] += other * everyone + more * np.clip(counted, 0.0, everyone)
    share = np.divide(1.0, rows, out=np.zeros_like(rows), where=rows > 0)
    v, k = Line(constant=v0, slope=vslope * share), Line(constant=k0, slope=kslope * share)
    unit = 1.0 / theta if asked.full else 0.0
    low, high = tail_interval(value - known, v, k, asked.alpha, 0.0, rows, unit)
    shown = np.rint((value - known) * theta + rows * looks)
    least, most, exact = few_changes(shown, rows, theta, looks, asked.alpha, full=asked.full)
    low, high = np.where(exact, least, low), np.where(exact, most, high)
    return OneColumn(variance, known + low, known + high, alike & (asked.measure == 0), alike)


# --- response estimate ------------------------------------------------------------------------------------------------
# Answers from independently randomised columns, in the shape the query pipeline asks for.
#
# Every involved unit is a column with its own keep probability; the question's classes of its values have an exact
# lumped channel; together a Kronecker product (docs/explanation/randomized-response.md, 3). A functional h over the
# joint classes has the weights w = P^-T h, and with g its measure of untouched columns
#
#     estimate = sum g w,   variance = sum g^2 (w^2 - P^-T h^2)   given the data set,
#     covariance = sum g_a g_b (w_a w_b - P^-T (h_a h_b)).
#
# Functionals with one non-zero class (cells of a GROUP BY) need no weights of their own: P^-1 applied to the observed
# counts gives all of them at once.


CHUNK = 4_000_000  # numbers of one dense block
FEW = 32  # up to this many functionals always get dense weights


@dataclass(slots=True)
class _WeightSums:
    """Running sums, (K, F); `largest` |w| per functional."""

    value: Floats
    square: Floats  # sum g^2 w^2
    known: Floats  # sum g^2 P^-T h^2
    spread: Floats  # mean g^2 over the rows of an output row: the scale of the guard
    largest: Floats  # (F,)
    cross: Floats  # (K, P) sum g_a g_b w_a w_b
    known_cross: Floats  # (K, P) sum g_a g_b P^-T (h_a h_b)


def estimate(thetas: Sequence[float], observed: Observed, asked: Asked) -> Estimated:
    """Unbiased estimates; counts of one column have inverted tests, all others the guarded interval.

    `thetas[i]` belongs to the unit `asked.units[i]`.
    """
    K, F, P = observed.keys, asked.functionals, len(asked.pairs)
    value, square, known, spread = (np.zeros((K, F)) for _ in range(4))
    sums = _WeightSums(value, square, known, spread, np.zeros(F), np.zeros((K, P)), np.zeros((K, P)))
    back = [
        inverse(channel(t, len(c), np.bincount(c))) for t, c in zip(thetas, asked.classes, strict=True)
    ]  # AxisMap or None per axis
    key, pattern = observed.key[observed.stratum], observed.pattern[observed.stratum]
    for b in np.unique(pattern):
        here = np.flatnonzero(pattern == b)
        tables = _Tables(observed, here, key[here], math.prod(asked.shape))
        H = asked.coefficients[b]
        filled = np.diff(H.indptr)
        single = np.flatnonzero(filled == 1)
        if len(single) <= FEW:
            single = single[:0]
        dense = np.setdiff1d(np.flatnonzero(filled), single)
        _add_dense(sums, back, tables, H, dense, asked)
        _add_cells(sums, back, tables, H, single, asked)
        _add_covariance(sums, back, tables, H, asked)
    own = one_column(thetas[0], observed, asked, sums.value) if len(thetas) == 1 else None
    return _collect(sums, asked, own)


class _Tables:
    """The observed moments of one pattern as sparse (K, V) tables."""

    def __init__(self, observed: Observed, here: NDArray[np.intp], key: NDArray[np.intp], V: int) -> None:
        self._moments, self._at, self._shape = observed.moments[here], (key, observed.value[here]), (observed.keys, V)
        self._kept: dict[int, csr_array] = {}

    def of(self, column: int) -> csr_array:
        """Sums of one moment by output row and joint class."""
        if column not in self._kept:
            self._kept[column] = csr_array((self._moments[:, column], self._at), shape=self._shape)
        return self._kept[column]


def _chunks(items: NDArray[np.intp], width: int) -> Iterator[NDArray[np.intp]]:
    step = max(1, CHUNK // max(width, 1))
    for start in range(0, len(items), step):
        yield items[start : start + step]


def _add_dense(
    sums: _WeightSums,
    back: Sequence[AxisMap | None],
    tables: _Tables,
    H: csr_array,
    chosen: NDArray[np.intp],
    asked: Asked,
) -> None:
    shape = asked.shape
    for part in _chunks(chosen, H.shape[1]):
        h = H[part].toarray().reshape(len(part), *shape)
        w = apply_transposed(back, h)
        excess = (w**2).reshape(len(part), -1), apply_transposed(back, h**2).reshape(len(part), -1)
        noisy = np.abs(w - h).reshape(len(part), -1).max(axis=1) > 1e-9
        w = w.reshape(len(part), -1)
        sums.largest[part] = np.maximum(sums.largest[part], np.where(noisy, np.abs(w).max(axis=1), 0.0))
        measure = asked.measure[part]
        for g in np.unique(measure):
            f = np.flatnonzero(measure == g)
            first, second = tables.of(asked.products[0, g]), tables.of(asked.products[g, g])
            sums.value[:, part[f]] += first @ w[f].T
            sums.square[:, part[f]] += second @ excess[0][f].T
            sums.known[:, part[f]] += second @ excess[1][f].T
            spread = _spread(tables, asked.products[g, g], slice(None))
            sums.spread[:, part[f]] = np.maximum(sums.spread[:, part[f]], spread)


def _spread(tables: _Tables, column: int, k: NDArray[np.intp] | slice) -> Floats:
    """Mean of g^2 over the rows of each output row, as a column."""
    top = tables.of(column)[k].sum(axis=1)
    rows = tables.of(0)[k].sum(axis=1)
    return np.divide(top, rows, out=np.zeros_like(top), where=rows > 0)[:, None]


def _add_cells(
    sums: _WeightSums,
    back: Sequence[AxisMap | None],
    tables: _Tables,
    H: csr_array,
    chosen: NDArray[np.intp],
    asked: Asked,
) -> None:
    if not len(chosen):
        return
    shape, V = asked.shape, H.shape[1]
    place, scale = H.indices[H.indptr[chosen]], H.data[H.indptr[chosen]]
    largest = np.ones(())
    noisy = any(m is not None for m in back)
    for m, size in zip(back, shape, strict=True):
        one = np.ones(size) if m is None else np.maximum(np.abs(m.diagonal + m.column), np.abs(m.column))
        largest = np.multiply.outer(largest, one)
    sums.largest[chosen] = np.maximum(sums.largest[chosen], np.abs(scale) * largest.reshape(-1)[place] * noisy)
    squares = squared(back)
    measure = asked.measure[chosen]
    for g in np.unique(measure):
        f = np.flatnonzero(measure == g)
        first, second = tables.of(asked.products[0, g]), tables.of(asked.products[g, g])
        for k in _chunks(np.arange(first.shape[0]), V):
            at = np.ix_(k, chosen[f])
            plain = first[k].toarray().reshape(len(k), *shape)
            weighted = plain if g == 0 else second[k].toarray().reshape(len(k), *shape)
            value = apply_maps(back, plain).reshape(len(k), -1)[:, place[f]]
            known = value if g == 0 else apply_maps(back, weighted).reshape(len(k), -1)[:, place[f]]
            square = apply_maps(squares, weighted).reshape(len(k), -1)[:, place[f]]
            sums.value[at] += value * scale[f]
            sums.square[at] += square * scale[f] ** 2
            sums.known[at] += known * scale[f] ** 2
            spread = _spread(tables, asked.products[g, g], k)
            sums.spread[at] = np.maximum(sums.spread[at], spread)


def _add_covariance(
    sums: _WeightSums, back: Sequence[AxisMap | None], tables: _Tables, H: csr_array, asked: Asked
) -> None:
    shape = asked.shape
    for part in _chunks(np.arange(len(asked.pairs)), H.shape[1]):
        a, b = asked.pairs[part].T
        h = [H[side].toarray().reshape(len(part), *shape) for side in (a, b)]
        w = [apply_transposed(back, x) for x in h]
        cross, known = (w[0] * w[1]).reshape(len(part), -1), apply_transposed(back, h[0] * h[1]).reshape(len(part), -1)
        columns = asked.products[asked.measure[a], asked.measure[b]]
        for j in np.unique(columns):
            f = np.flatnonzero(columns == j)
            sums.cross[:, part[f]] += tables.of(j) @ cross[f].T
            sums.known_cross[:, part[f]] += tables.of(j) @ known[f].T


def _collect(sums: _WeightSums, asked: Asked, own: OneColumn | None) -> Estimated:
    variance, covariance = sums.square - sums.known, sums.cross - sums.known_cross
    if own is not None:
        variance = np.where(own.alike, own.variance, variance)
    # the guard keeps the coverage of small counts (section 6 there); sqrt(mean g^2) scales it for sums of a measure
    guard = asked.z**2 * sums.largest**2 * sums.spread / 4.0
    half = asked.z * np.sqrt(np.maximum(variance, 0.0) + guard)
    low, high, inverted = sums.value - half, sums.value + half, np.zeros(half.shape, dtype=bool)
    if own is not None:
        low, high = np.where(own.counts, own.low, low), np.where(own.counts, own.high, high)
        inverted |= own.counts
    return Estimated(
        value=sums.value,
        variance=np.maximum(variance, 0.0),
        low=low,
        high=high,
        covariance=covariance,
        inverted=inverted,
    )
