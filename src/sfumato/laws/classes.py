"""classes: quasi-identifiers leave as labels that stand for several values; rows of one class show true values.

Answers assume that people of a class are spread evenly over its values. A released label stands for a set of base
values; a row with joint label L counts for a functional h with the mean of h over the base cells of L. The variance is
the one of that model (each row uniform in its class, independently); the limits need no model: the least and the
largest value of h in the class, summed over rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..errors import ReleaseError, VerificationError
from ..model.private import Batch, Released, Work
from ..model.public import Asked, Codes, Domain, Estimated, Evidence, Floats, Integers, Observed, Published
from .contract import Bounds, Law
from .published import check_roles

CAVEAT = "estimates assume that the people of a class are spread evenly over its values; n_min and n_max are certain"
LARGEST = 5_000_000  # groups x cells up to which ratios get certain bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One generalised column: the label of every value of its domain."""

    column: str
    level: int
    height: int
    labels: tuple[str, ...]
    member: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Keeper:
    """Which cells stay, for rows of codes of any batch: prefixes of the cells numbered column by column."""

    steps: tuple[Integers, ...]  # per column after the first: sorted keys prefix * size + code
    sizes: tuple[int, ...]
    stay: NDArray[np.bool_]  # per number of the whole cell

    @classmethod
    def of(cls, cells: Integers, where: Integers, good: NDArray[Any]) -> Keeper:
        """From the distinct cells, their classes and which classes are diverse."""
        sizes = tuple(int(c.max()) + 1 for c in cells.T)
        number, steps = cells[:, 0], []
        for column, size in zip(cells.T[1:], sizes[1:], strict=True):
            keys = np.unique(number * size + column)
            steps.append(keys)
            number = np.searchsorted(keys, number * size + column)
        stay = np.zeros(int(number.max()) + 1, dtype=bool)
        stay[number] = good[where]
        return cls(steps=tuple(steps), sizes=sizes, stay=stay)

    def __call__(self, codes: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Which rows stay; a cell that was not counted when planning does not."""
        number = codes[0].astype(np.int64)
        known = number < self.sizes[0]
        for keys, size, column in zip(self.steps, self.sizes[1:], codes[1:], strict=True):
            key = number * size + column
            number = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            known &= (keys[number] == key) & (column < size)
        return np.asarray(known & self.stay[np.minimum(number, len(self.stay) - 1)])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Relabelling:
    """How rows are relabelled, private: what is published for every value, and which rows stay."""

    code: tuple[Codes, ...]  # of every value of the domains of *all* rows; 0 where no row stays
    keeper: Keeper | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes(Law):
    """The generalised columns with their labels."""

    name = "classes"
    formula = "a row counts with the mean of h over the values of its labels; limits: least and largest h there"
    classes = True

    columns: tuple[Level, ...]
    suppressed: int = 0

    def __post_init__(self) -> None:
        if self.suppressed < 0:
            raise ValueError("a negative number of rows was left out")
        for level in self.columns:
            if set(level.member) != set(range(len(level.labels))) or len(set(level.labels)) != len(level.labels):
                raise ValueError(f"values and labels of {level.column} do not fit each other")

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Labels for values; rows that would make a class not diverse stay behind."""
        how: Relabelling = work.secret
        codes = batch.codes[: len(self.columns)]
        new = [
            code.take(c) if code.any() else np.zeros(batch.rows, dtype=code.dtype)  # one label, that of all values
            for code, c in zip(how.code, codes, strict=True)
        ]
        return Released(codes=(*new, None), stay=None if how.keeper is None else how.keeper(codes))

    def released_domains(self, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
        """Labels where a column is generalised."""
        found = tuple((domain.columns[0], len(domain)) for domain in domains[: len(self.columns)])
        if found != tuple((level.column, len(level.member)) for level in self.columns):
            raise ReleaseError("release.json states labels that do not fit its columns")
        out = list(domains)
        for i, level in enumerate(self.columns):
            if level.level:
                values = tuple((label,) for label in level.labels)
                out[i] = Domain(columns=domains[i].columns, values=values, declared=domains[i].declared)
        return tuple(out)

    def generalised(self, unit: int) -> tuple[int, ...]:
        """The label of every value."""
        return self.columns[unit].member

    def _members(self, asked: Asked) -> list[Integers]:
        return [np.asarray(self.columns[u].member, dtype=np.int64) for u in asked.units]

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Even spread inside a class, with certain limits."""
        return estimate(self._members(asked), observed, asked)

    def bound(
        self,
        evidence: Evidence,
        kind: str,
        observed: Observed,
        asked: Asked,
        top: Sequence[int],
        bottom: Sequence[int],
        share: float | None,
    ) -> Bounds | None:
        """Certain bounds of shares and averages."""
        if kind != "ratio":
            return None
        found = ratio_bounds(self._members(asked), observed, asked, top, bottom)
        return None if found is None else (*found, ())

    def check(self, published: Published) -> None:
        """Classes are made of every quasi-identifier, at levels that its hierarchy has."""
        check_roles(published, "quasi")
        if {level.column for level in self.columns} != set(published.with_role("quasi")):
            raise VerificationError("the classes are not made of all quasi-identifiers")
        for level in self.columns:
            if not 0 <= level.level <= level.height:
                raise VerificationError(f'"{level.column}" has a level that its hierarchy does not have')


def estimate(members: Sequence[Integers], observed: Observed, asked: Asked) -> Estimated:
    """Even-spread estimates and certain limits; `members[i][code]` is the released label of unit `asked.units[i]`."""
    K, F = observed.keys, asked.functionals
    labels = tuple(int(m.max()) + 1 for m in members)
    sizes = np.ones(1)
    for m in members:
        sizes = np.multiply.outer(sizes, np.bincount(m).astype(np.float64)).reshape(-1)
    seen = _labels_of(observed.value, asked.shape, labels)
    key, pattern = observed.key[observed.stratum], observed.pattern[observed.stratum]
    value, variance, low, high = (np.zeros((K, F)) for _ in range(4))
    covariance = np.zeros((K, len(asked.pairs)))
    for b in np.unique(pattern):
        here = np.flatnonzero(pattern == b)

        def table(column: int, here: NDArray[np.intp] = here) -> csr_array:
            return csr_array((observed.moments[here, column], (key[here], seen[here])), shape=(K, math.prod(labels)))

        cells = _ClassCells(asked.coefficients[b], members, asked.shape, labels, sizes)
        spread = cells.mean_of_squares - cells.mean.power(2)
        for g in np.unique(asked.measure):
            f = np.flatnonzero(asked.measure == g)
            first, second = table(asked.products[0, g]), table(asked.products[g, g])
            value[:, f] += (first @ cells.mean[f].T).toarray()
            variance[:, f] += (second @ spread[f].T).toarray()
            least, most = cells.least[f].T, cells.most[f].T
            if g == 0:
                low[:, f] += (first @ least).toarray()
                high[:, f] += (first @ most).toarray()
            else:  # the sign of the measure is not known row by row: certain only where h is the same all over a class
                open_ended = (table(0) @ (most - least)).toarray() > 0
                low[:, f] = np.where(open_ended, -np.inf, low[:, f] + (first @ least).toarray())
                high[:, f] = np.where(open_ended, np.inf, high[:, f] + (first @ most).toarray())
        if len(asked.pairs):
            left, right = asked.pairs.T
            joint = cells.mean_of_products(left, right) - cells.mean[left].multiply(cells.mean[right])
            columns = asked.products[asked.measure[left], asked.measure[right]]
            for j in np.unique(columns):
                p = np.flatnonzero(columns == j)
                covariance[:, p] += (table(int(j)) @ joint[p].T).toarray()
    return Estimated(
        value=value,
        variance=np.maximum(variance, 0.0),
        low=low,
        high=high,
        covariance=covariance,
        minimum=low,
        maximum=high,
        caveats=(CAVEAT,),
        assumed=True,
    )


def _labels_of(value: NDArray[np.intp], shape: tuple[int, ...], labels: tuple[int, ...]) -> NDArray[np.intp]:
    """Joint label numbers of observed rows, whose released codes were numbered over the base shape."""
    if not shape:
        return np.zeros_like(value)
    return np.asarray(np.ravel_multi_index(np.unravel_index(value, shape), labels), dtype=np.intp)


class _ClassCells:
    """A (F, base cells) matrix of coefficients seen from joint labels: mean, mean of squares, least, most."""

    def __init__(
        self,
        H: csr_array,
        members: Sequence[Integers],
        shape: tuple[int, ...],
        labels: tuple[int, ...],
        sizes: Floats,
    ) -> None:
        self._H, self._sizes, self._width = H, sizes, len(sizes)
        base = np.unravel_index(np.arange(H.shape[1]), shape) if shape else ()
        moved = tuple(m[c] for m, c in zip(members, base, strict=True))
        self._label = np.ravel_multi_index(moved, labels) if moved else np.zeros(H.shape[1], dtype=np.intp)
        self.mean, self.mean_of_squares = self._mean(H), self._mean(H.power(2))
        filled = self._sum(H, np.ones_like(H.data))
        self.most = self._extreme(filled, np.maximum)
        self.least = self._extreme(filled, np.minimum)

    def _sum(self, H: csr_array, data: Floats) -> csr_array:
        return csr_array((data, (H.tocoo().row, self._label[H.indices])), shape=(H.shape[0], self._width))

    def _mean(self, H: csr_array) -> csr_array:
        out = self._sum(H, H.data)
        out.data /= self._sizes[out.indices]
        return out

    def mean_of_products(self, left: NDArray[np.intp], right: NDArray[np.intp]) -> csr_array:
        """Mean over each label of h_left h_right, one row per pair."""
        return self._mean(self._H[left].multiply(self._H[right]))

    def _extreme(self, filled: csr_array, better: np.ufunc) -> csr_array:
        """Largest or least coefficient over the base cells of each label, zero cells included."""
        H = self._H
        keys = H.tocoo().row.astype(np.int64) * self._width + self._label[H.indices]
        order = np.argsort(keys, kind="stable")
        _, start = np.unique(keys[order], return_index=True)
        best = better.reduceat(H.data[order], start) if len(start) else np.empty(0)
        partial = filled.data < self._sizes[filled.indices]  # some base cell of the label has coefficient 0
        return csr_array(
            (np.where(partial, better(best, 0.0), best), filled.indices, filled.indptr), shape=filled.shape
        )


def ratio_bounds(
    members: Sequence[Integers], observed: Observed, asked: Asked, top: Sequence[int], bottom: Sequence[int]
) -> tuple[Floats, Floats] | None:
    """Certain bounds (K, groups) of sum a / sum b over all ways to give every row a base value of its labels.

    None where a measure is involved, or the question is too large. sup N / D is the least t for which no choice has
    sum n (a - t b) > 0; each class then picks its best value on its own, so bisection on t is exact.
    """
    groups, span, V = asked.groups, asked.functionals // asked.groups, math.prod(asked.shape)
    if asked.measure[[*top, *bottom]].any() or groups * V * len(asked.coefficients) > LARGEST:
        return None
    labels = tuple(int(m.max()) + 1 for m in members)
    base = np.unravel_index(np.arange(V), asked.shape)
    label_of = np.ravel_multi_index(tuple(m[c] for m, c in zip(members, base, strict=True)), labels)
    seen = _labels_of(observed.value, asked.shape, labels)
    key, pattern = observed.key[observed.stratum], observed.pattern[observed.stratum]
    low, high = (np.full((observed.keys, groups), np.nan) for _ in range(2))
    for g in range(groups):
        options = []  # (pattern * labels + label, a, b), distinct
        for p, H in enumerate(asked.coefficients):
            a, b = (H[[g * span + j for j in js]].sum(axis=0) for js in (top, bottom))
            options.append(np.unique(np.column_stack([p * math.prod(labels) + label_of, a, b]), axis=0))
        table = np.concatenate(options)
        wanted = pattern * math.prod(labels) + seen
        first, last = (np.searchsorted(table[:, 0], wanted, side=side) for side in ("left", "right"))
        choices = _Choices(table, first, last - first, observed, key)
        low[:, g], high[:, g] = choices.least(), choices.largest()
    return low, high


class _Choices:
    """Per observed entry the (a, b) pairs its rows may have."""

    def __init__(
        self,
        table: Floats,
        first: NDArray[np.intp],
        sizes: NDArray[np.intp],
        observed: Observed,
        key: NDArray[np.intp],
    ) -> None:
        self.start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)[: len(sizes)]
        pick = np.repeat(first - self.start, sizes) + np.arange(sizes.sum())
        self.a, self.b, self.of = table[pick, 1], table[pick, 2], np.repeat(key, sizes)
        self.rows, self.key, self.keys = observed.moments[:, 0], key, observed.keys

    def least(self) -> Floats:
        """inf of sum a / sum b per output row."""
        self.a = -self.a
        found = -self.largest()
        self.a = -self.a
        return found

    def largest(self) -> Floats:
        """sup of sum a / sum b per output row; nan where b is 0 for every choice."""
        with np.errstate(invalid="ignore", divide="ignore"):
            each = np.where(self.b > 0, self.a / self.b, np.nan)
        low, high = np.full(self.keys, np.inf), np.full(self.keys, -np.inf)
        known = ~np.isnan(each)
        np.minimum.at(low, self.of[known], each[known])
        np.maximum.at(high, self.of[known], each[known])
        none = np.isinf(low)
        low, high = np.where(none, 0.0, low), np.where(none, 0.0, high)
        if not len(self.start):
            return np.full(self.keys, np.nan)
        for _ in range(60):
            middle = 0.5 * (low + high)
            best = np.maximum.reduceat(self.a - middle[self.of] * self.b, self.start)
            more = np.bincount(self.key, weights=self.rows * best, minlength=self.keys) > 1e-9
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        return np.where(none, np.nan, np.round(high, 12))
