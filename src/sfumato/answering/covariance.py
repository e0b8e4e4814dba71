"""What one row of the true table adds to each number of an answer, and the covariances that follow from it.

A COUNT or SUM is a sum over true rows of a function h of the row; a ratio R = A / B changes with a row by
(h_A - R h_B) / B. So every number of an answer, and every smooth function of several, has one such function, and the
method's sums over true rows (`Method.functionals`) give the covariance of any of them: docs/explanation/inference.md,
sections 1 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import UnsupportedQuery
from ..laws.functionals import Cells, CodedUnit, Functionals, Functions, Planes, runs
from ..model.public import Floats
from ..sql.nodes import Aggregate
from ..stats.joint_codes import distinct_rows
from .functionals import Functional, Strata, coefficients, places, sort_into_strata
from .observe import Frame

TOGETHER = 64  # numbers whose covariances are worked out at once
MOST_NUMBERS = 2_000  # of a joint covariance
ROUNDING = 1e-12  # of a sum of numbers that are nowhere below 0, to the sum of those above 0
MOST_WORK = 1_000_000_000  # numbers x strata x values that are looked at: about a minute of processor time
LINEAR = {"sum", "ratio"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slopes:
    """How some numbers depend on functionals: (numbers,) output row, (numbers, J) by its own and by its class's sums.

    `label[row]` numbers classes of output rows; `total[n, j]` is the slope by functional j added up over the class.
    """

    row: NDArray[np.intp]
    own: Floats
    total: Floats | None = None
    label: NDArray[np.intp] | None = None


class Influence:
    """The functionals of one grouping set as functions on strata and true values."""

    def __init__(self, frame: Frame, keys: tuple[int, ...], first: int) -> None:
        """`first` is the place of the set's first output row in the answer."""
        self._frame, self._subject, self.first = frame, frame.subject, first
        strata = sort_into_strata(frame)
        query = frame.query
        wanted: list[Functional] = []
        self._parts: list[tuple[list[int], list[int]]] = []
        for aggregate in query.aggregates:
            self._parts.append(places(wanted, aggregate) if aggregate.kind in LINEAR else ([], []))
        wanted = wanted or [Functional((), 0)]  # nothing but exact aggregates
        self._measure = np.array([f.measure for f in wanted], dtype=np.intp)
        matrices, combos = coefficients(query, wanted, keys, frame.place, strata.patterns)
        self._J, self._C = len(wanted), len(combos)
        shape = (len(matrices), self._C, self._J, int(np.prod(frame.place.shape)))
        self._dense = np.array([H.toarray() for H in matrices]).reshape(shape)  # of no pattern where no row is seen
        plain = [i for i in keys if query.keys[i].unit is None]
        groups, key = distinct_rows([strata.keys[i][0][strata.first] for i in plain], len(strata.first))
        self._key = key if plain else np.zeros(len(strata.first), dtype=np.intp)
        self.rows = (len(groups) if plain else 1) * self._C
        self._strata = strata

    def slopes_of(self, aggregate: int, value: Floats, bottom: Floats | None) -> Floats:
        """(rows, J): slope of an aggregate by its functionals; `value` and `bottom` of a ratio are per output row."""
        found = np.zeros((self.rows, self._J))
        top, below = self._parts[aggregate]
        scale = np.ones(self.rows) if bottom is None else 1 / bottom
        for j in top:
            found[:, j] += scale
        for j in below:
            found[:, j] -= value * scale
        return found

    def denominators(self, aggregate: int, release: Functionals) -> Floats:
        """(rows,): the estimated total below a ratio."""
        _, below = self._parts[aggregate]
        slopes = np.zeros((self.rows, self._J))
        slopes[:, below] = 1.0
        found = np.zeros(self.rows)
        for some in _blocks(self.rows):
            chosen = Slopes(row=np.arange(some.start, some.stop), own=slopes[some])
            found[some] = release.value(self._functions(chosen))
        return found

    @cached_property
    def functionals(self) -> Functionals | None:
        """The method's sums over the strata; None where it has none."""
        units = [
            CodedUnit(unit=u, classes=c)
            for u, c in zip(self._frame.place.units, self._frame.place.classes, strict=True)
        ]
        return self._subject.functionals(_cells(self._frame, self._strata, self._subject.rows), units)

    def variance(self, slopes: Slopes) -> Floats:
        """(numbers,) variances."""
        release = self._needed()
        self._check_work(len(slopes.row))
        found = np.zeros(len(slopes.row))
        for some in _blocks(len(slopes.row)):
            functions = self._functions(_part(slopes, some))
            found[some] = np.diag(release.covariance(functions, "table"))
        return np.maximum(found, 0.0)

    def paired(self, one: Slopes, other: Slopes) -> tuple[Floats, Floats, Floats]:
        """(numbers,) variance of each of one kind, covariance with that of the other kind, variance of the other."""
        release, n = self._needed(), len(one.row)
        self._check_work(2 * n)
        found = np.zeros((3, n))
        for some in _blocks(n):
            left, right = (self._functions(_part(slopes, some)) for slopes in (one, other))
            S = release.covariance(_joined(left, right), "table")
            width = some.stop - some.start
            found[:, some] = np.diag(S)[:width], np.diag(S, width), np.diag(S)[width:]
        return np.maximum(found[0], 0.0), found[1], np.maximum(found[2], 0.0)

    def covariance(self, slopes: Slopes) -> Floats:
        """(numbers, numbers) covariances."""
        return self._needed().covariance(self._functions(slopes), "table")

    def not_negative(self, aggregate: int) -> bool:
        """Whether a sum is 0 or more, whatever the true values are."""
        top, below = self._parts[aggregate]
        for j in top:
            h = self._dense[:, :, j]
            counted = np.asarray(h.any(axis=(1, 2)))[self._strata.pattern]
            if (h < 0).any() or (counted & self._below_0(int(self._measure[j]))).any():
                return False
        return not below

    def quotients(self, top: Slopes, bottom: Slopes) -> tuple[Floats, Floats]:
        """(numbers,) least and largest quotient of two sums that is possible, whatever the true values are.

        Of sums of one measure that is nowhere below 0: sum g t / sum g b lies between the least and the largest t / b,
        where b is above 0 wherever t is not 0. Anything else may be any number.
        """
        n = len(top.row)
        self._check_work(n)
        least, most, loose = np.full(n, np.inf), np.full(n, -np.inf), np.zeros(n, dtype=bool)
        used = np.zeros((len(self._frame.query.measures), n), dtype=bool)
        for some in _blocks(n):
            above, below = (self._functions(_part(slopes, some)) for slopes in (top, bottom))
            for at in runs(len(self._key), (some.stop - some.start) * self._dense.shape[-1]):
                a, b = above.planes(at), below.planes(at)
                for m in a:
                    t, u = a[m], b[m]
                    there = (t != 0) | (u != 0)
                    used[m, some] |= there.any(axis=(0, 2))
                    wrong = (u < 0) | ((u == 0) & (t != 0)) | (there & self._below_0(m)[at, None, None])
                    loose[some] |= wrong.any(axis=(0, 2))
                    ratio = np.divide(t, u, out=np.full_like(t, np.nan), where=u > 0)
                    least[some] = np.fmin(least[some], np.fmin.reduce(ratio, axis=(0, 2)))
                    most[some] = np.fmax(most[some], np.fmax.reduce(ratio, axis=(0, 2)))
        loose |= (used.sum(axis=0) > 1) | ~(least <= most)
        return np.where(loose, -np.inf, least), np.where(loose, np.inf, most)

    def _below_0(self, measure: int) -> NDArray[np.bool_]:
        """(strata,) whether some row of a stratum has a number below 0."""
        strata, at = self._strata, self._frame.wanted.moments.index((0, measure))
        total, positive = (
            np.bincount(strata.stratum, weights=x, minlength=len(strata.first))
            for x in (strata.moments[:, at], strata.positive[:, measure])
        )
        return np.asarray(total < positive * (1 - ROUNDING))

    def _check_work(self, numbers: int) -> None:
        """Every number looks at every stratum: refused where that would take minutes."""
        if numbers * len(self._key) * self._dense.shape[-1] > MOST_WORK:
            raise UnsupportedQuery(
                f"the answer has {self.rows:,} rows, too many for numbers that are computed from its estimates",
                hint="Group by fewer values, for example age // 10, or ask for the aggregates themselves.",
            )

    def _needed(self) -> Functionals:
        found = self.functionals
        if found is None:
            raise UnsupportedQuery(f'"{self._subject.method}" does not tell how errors of its answers go together')
        return found

    def _functions(self, slopes: Slopes) -> Functions:
        group, combo = np.divmod(slopes.row, self._C)

        def planes(at: slice) -> Planes:
            key, H = self._key[at], self._dense[self._strata.pattern[at]]  # (cells, C, J, V)
            found: dict[int, Floats] = {}
            mine = (key[:, None] == group[None, :]).astype(np.float64)  # (cells, numbers)
            for m in np.unique(self._measure):
                js = np.flatnonzero(self._measure == m)
                h = np.einsum("cn,nj,cnjv->cnv", mine, slopes.own[:, js], H[:, combo][:, :, js], optimize=True)
                if slopes.total is not None and slopes.label is not None:
                    label = slopes.label.reshape(-1, self._C)[key]  # class of each (stratum, combo)
                    same = (label[:, None, :] == slopes.label[slopes.row][None, :, None]).astype(np.float64)
                    h = h + np.einsum("cnk,nj,ckjv->cnv", same, slopes.total[:, js], H[:, :, js], optimize=True)
                found[int(m)] = h
            return found

        return Functions(size=len(slopes.row), planes=planes)


def _part(slopes: Slopes, some: slice) -> Slopes:
    total = None if slopes.total is None else slopes.total[some]
    return Slopes(row=slopes.row[some], own=slopes.own[some], total=total, label=slopes.label)


def _joined(left: Functions, right: Functions) -> Functions:
    """The functions of both, one after the other."""

    def planes(at: slice) -> Planes:
        a, b = left.planes(at), right.planes(at)
        some = next(iter(a.values()))
        cells, values = some.shape[0], some.shape[2]
        nothing = {side: np.zeros((cells, f.size, values)) for side, f in (("left", left), ("right", right))}
        return {
            m: np.concatenate([a.get(m, nothing["left"]), b.get(m, nothing["right"])], axis=1) for m in sorted({*a, *b})
        }

    return Functions(size=left.size + right.size, planes=planes)


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, TOGETHER):
        yield slice(start, min(size, start + TOGETHER))


def _cells(frame: Frame, strata: Strata, rows: int) -> Cells:
    """The strata as cells, with the sums of products of measures."""
    G = len(frame.query.measures)
    moments = np.zeros((len(strata.stratum), G, G))
    for j, (a, b) in enumerate(frame.wanted.moments):
        moments[:, a, b] = moments[:, b, a] = strata.moments[:, j]
    return Cells(
        cell=strata.stratum.astype(np.intp),
        part=strata.part,
        value=strata.value,
        moments=moments,
        cells=len(strata.first),
        rows=rows,
    )


def sets_of(frame: Frame) -> list[Influence]:
    """One for each grouping set, in the order of the answer's rows."""
    found: list[Influence] = []
    for keys in frame.query.sets:
        first = found[-1].first + found[-1].rows if found else 0
        found.append(Influence(frame, keys, first))
    return found


def aggregate_slopes(influence: Influence, aggregate: Aggregate, j: int, columns: pa.Table) -> Floats:
    """(rows, J) slopes of one aggregate, to the error that the answer states for it; 0 where it is exact."""
    part = columns.slice(influence.first, influence.rows)
    value, se = (part[f"a{j}{end}"].to_numpy(zero_copy_only=False) for end in ("", "_se"))
    moves = np.nan_to_num(se) > 0
    if aggregate.kind not in LINEAR:
        if moves.any() or np.isnan(value).all():
            raise UnsupportedQuery(f"{aggregate.text} has an interval of its own, but no error to compute with")
        return np.zeros((influence.rows, 1))
    bottom = None
    if aggregate.kind == "ratio":
        release = influence.functionals
        if release is None:
            raise UnsupportedQuery("this method does not tell how errors of its answers go together")
        bottom = influence.denominators(j, release)
        bottom = np.where(bottom > 0, bottom, np.nan)
    found = np.where(moves[:, None], np.nan_to_num(influence.slopes_of(j, np.nan_to_num(value), bottom)), 0.0)
    # Stated errors are guarded where estimated moments contradict each other; what is computed from them agrees.
    own = np.sqrt(influence.variance(Slopes(row=np.arange(influence.rows), own=found)))
    return found * np.divide(np.nan_to_num(se), own, out=np.ones_like(own), where=own > 0)[:, None]


def shown_covariance(frame: Frame, whole: pa.Table, rows: NDArray[np.int64]) -> Floats:
    """Covariances of the numbers of an answer, row by row; `rows` are the rows that it shows, in their order."""
    listed = [column for _, column in frame.query.columns if column[0] in "ad" and "_" not in column]
    if any(column[0] == "d" for column in listed):
        raise UnsupportedQuery("covariances are told of aggregates, not of numbers computed from them")
    if len(frame.query.sets) > 1:
        raise UnsupportedQuery("covariances are told for a plain GROUP BY, not for several grouping sets")
    (influence,) = sets_of(frame)
    size = influence.rows * len(listed)
    if size > MOST_NUMBERS:
        raise UnsupportedQuery(f"the answer has {size:,} numbers; covariances are told of up to {MOST_NUMBERS:,}")
    se = np.stack([whole[f"{column}_se"].to_numpy(zero_copy_only=False) for column in listed], axis=1).ravel()
    found = np.zeros((size, size))
    if (se != 0).any():
        chosen = [int(column[1:]) for column in listed]
        slopes = [aggregate_slopes(influence, frame.query.aggregates[j], j, whole) for j in chosen]
        own = np.stack(slopes, axis=1).reshape(size, -1)
        found = influence.covariance(Slopes(row=np.repeat(np.arange(influence.rows), len(listed)), own=own))
        found = np.where(np.isnan(se)[:, None] | np.isnan(se)[None, :], np.nan, found)
    at = (rows[:, None] * len(listed) + np.arange(len(listed))[None, :]).ravel()
    return found[np.ix_(at, at)]
