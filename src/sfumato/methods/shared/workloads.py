"""The questions that a publisher declares, and the set channel made for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg as sl

from ...errors import SpecError
from ...laws.set_channel import Members, PlannedList, SetChannel, checked_prior
from ...model.private import Watch
from ...model.public import Codes, Domain, Floats, Integers
from ...stats.ties import NEAR, to_digits
from .set_lists import best_width, hit_rates, least_total

# A set channel made for declared questions: the list and its weights with the least total variance.
#
# Sets are added where they help and weights chosen by a convex programme, in turns, until the distance to the optimum
# is small (docs/explanation/set-channels.md, section 7). The same input and seed give the same channel: digits that
# depend on the processor decide nothing; no clock.


# --- set weights ------------------------------------------------------------------------------------------------------
# The best weights for a given list of sets: a convex programme, solved by a barrier method with Newton steps.
#
#     minimise tr(M^-1 G),  M = sum_Z c_Z u_Z u_Z' / (u_Z.pi),   over c >= 0 with sum_Z c_Z u_Z = 1
#
# docs/explanation/set-channels.md, section 7, has why this is the whole problem. Every iterate satisfies the
# equations: moving c by dc moves M by at most max |dc / c| M, so f and the barrier -sum log c go together and Newton's
# method needs few steps.
#
# Questions that look the same from both ends of the domain have a best channel that does, too. Then a set and its
# mirror image share a weight, M falls into an even and an odd half, and the work is an eighth.


STEPS = 60  # of one solution; about fifteen are used
SHRINK = 0.15  # the barrier's weight from one centre to the next
CENTRED = 1.0  # Newton decrement, squared, at which a centre is near enough


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighing:
    """Weights, multipliers and what pricing needs; `value` = tr(M^-1 G)."""

    c: Floats  # (k,)
    lam: Floats  # (m,)
    Y: Floats  # M^-1 G M^-1
    value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Point:
    """Weights with the value there and M^-1, half by half."""

    c: Floats
    value: float
    inverses: tuple[Floats, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightProgramme:
    """The programme for fixed questions, centred, and prior; `mirrored` where both look the same from either end."""

    gram: Floats
    prior: Floats
    excess: float  # gamma - 1
    mirrored: bool

    def solve(self, members: Members, c: Floats, gap: float, tolerance: float) -> Weighing:
        """The best weights of these sets from a feasible positive start, to within `tolerance` of the value.

        `gap`: how far from the best the start may be, relative; the barrier starts there.
        """
        halves = self.halves()
        u = 1 + self.excess * members
        p = u @ self.prior
        parts = tuple(u @ basis for basis in halves)
        grams = tuple(basis.T @ self.gram @ basis for basis in halves)
        point = _value(parts, grams, p, c)
        last = tolerance * point.value / len(c)
        mu = max(gap * point.value / len(c), last)
        for _ in range(STEPS):
            dc, lam, decrement = _newton(parts, grams, p, point, mu)
            if decrement < CENTRED:
                if mu <= last:
                    break
                mu = max(SHRINK * mu, last)
                continue
            point = _search(parts, grams, p, point, dc, mu, decrement)
        Y = sum(
            (
                basis @ (inv @ gram @ inv) @ basis.T
                for basis, inv, gram in zip(halves, point.inverses, grams, strict=True)
            ),
            np.zeros_like(self.gram),
        )
        return Weighing(c=point.c, lam=halves[0] @ lam, Y=Y, value=point.value)

    def halves(self) -> tuple[Floats, ...]:
        """Orthonormal bases: everything, or what mirroring keeps and what it turns round."""
        size = len(self.prior)
        one = np.eye(size)
        if not self.mirrored:
            return (one,)
        left = one[:, : size // 2]
        even, odd = (left + left[::-1]) / np.sqrt(2), (left - left[::-1]) / np.sqrt(2)
        return (np.column_stack([even, one[:, size // 2 : size - size // 2]]), odd)


def shares(members: Members, mirrored: bool) -> Floats:
    """(k, m): how much of each set's weight covers each value; a mirrored set shares its weight with its image."""
    return (members + members[:, ::-1].astype(np.float64)) / 2 if mirrored else members.astype(np.float64)


def feasible(covering: Floats, c: Floats, excess: float, singles: int) -> Floats:
    """Weights near `c` with sum of c u = 1 exactly: the singletons that lead the list fill what values lack.

    `covering` from `shares`; singleton x stands at position x, and with mirroring also for its image.
    """
    coverage = c @ covering
    lack = coverage.max() - coverage
    x = np.arange(singles)
    filled = c.copy()
    filled[:singles] += lack[:singles] / covering[x, x]
    return filled / (filled.sum() + excess * coverage.max())


def _value(parts: tuple[Floats, ...], grams: tuple[Floats, ...], p: Floats, c: Floats) -> _Point:
    value, inverses = 0.0, []
    for part, gram in zip(parts, grams, strict=True):
        inverse = np.linalg.inv((part * (c / p)[:, None]).T @ part)
        inverse = (inverse + inverse.T) / 2
        value += float((inverse * gram).sum())
        inverses.append(inverse)
    return _Point(c=c, value=value, inverses=tuple(inverses))


def _newton(
    parts: tuple[Floats, ...], grams: tuple[Floats, ...], p: Floats, at: _Point, mu: float
) -> tuple[Floats, Floats, float]:
    """(step, multipliers, decrement squared) for f / mu - sum log c on sum c u = 1."""
    # gradient -u'Yu / (u.pi), Hessian 2 (u'M^-1 v)(u'Y v) / ((u.pi)(v.pi)), here in the unknown dc / c: the barrier's
    # own part of the Hessian is then the identity
    c, k = at.c, len(at.c)
    hessian, slope = np.zeros((k, k)), np.ones(k)
    for part, gram, inverse in zip(parts, grams, at.inverses, strict=True):
        scaled = part * (c / p)[:, None]
        Y = inverse @ gram @ inverse
        shown = part @ Y
        slope += np.einsum("zx,zx->z", shown, scaled) / mu
        hessian += (scaled @ (inverse * (2 / mu)) @ scaled.T) * (shown @ part.T)
    hessian[np.diag_indices_from(hessian)] += 1.0
    factor = sl.cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
    rows = parts[0] * c[:, None]
    solved = sl.cho_solve(factor, np.column_stack([rows, slope]), check_finite=False)
    lam: Floats = np.linalg.solve(rows.T @ solved[:, :-1], rows.T @ solved[:, -1]).astype(np.float64, copy=False)
    relative = solved[:, -1] - solved[:, :-1] @ lam
    return c * relative, lam * mu, float(relative @ (slope - rows @ lam))


def _search(
    parts: tuple[Floats, ...], grams: tuple[Floats, ...], p: Floats, at: _Point, dc: Floats, mu: float, decrement: float
) -> _Point:
    """The point along the step that lowers f / mu - sum log c enough."""
    length = min(1.0, 0.95 / max(float((-dc / at.c).max()), 1e-300))
    while True:
        new = _value(parts, grams, p, at.c + length * dc)
        change = (new.value - at.value) / mu - float(np.log(new.c / at.c).sum())
        if change <= -0.1 * length * decrement or length < 1e-6:
            return new
        length /= 2


# --- set pricing ------------------------------------------------------------------------------------------------------
# Which sets would make a channel better: the pricing step of the channel design.
#
# With Y = M^-1 G M^-1 and multipliers lam, a set with levels u (gamma inside, 1 outside) helps exactly when
# u'Yu / (u.pi) > lam.u (docs/explanation/set-channels.md, section 7). Few values: all sets are tried. More: from many
# starts, the best single flip is taken until none helps.


ALL_SETS = 12  # up to so many values every set is tried, and the gap is certain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prices:
    """What a set is worth at the present weights."""

    Y: Floats
    lam: Floats
    prior: Floats
    excess: float  # gamma - 1

    def worth(self, members: Members) -> Floats:
        """(u'Yu / (u.pi) - lam.u) / (u.pi) for each set: above 0 it helps; the largest of all bounds the optimum."""
        u = 1 + self.excess * members
        p = u @ self.prior
        return (np.einsum("zx,zx->z", u @ self.Y, u) / p - u @ self.lam) / p

    def climb(self, members: Members, flips: int) -> Members:
        """Each set after its best flips, one value in or out at a time, until none helps or `flips` are done."""
        sets = members.copy()
        active = np.arange(len(sets))
        u = 1 + self.excess * sets
        Yu = u @ self.Y
        square, p, cost = np.einsum("zx,zx->z", Yu, u), u @ self.prior, u @ self.lam
        held = sets.sum(axis=1)
        diagonal = np.diag(self.Y)
        for _ in range(flips):
            step = np.where(sets[active], -self.excess, self.excess)
            new_p = p[active, None] + step * self.prior
            new = (square[active, None] + step * (2 * Yu[active] + step * diagonal)) / new_p
            new = (new - cost[active, None] - step * self.lam) / new_p
            # never empty, never everything
            new[(held[active] == 1)[:, None] & sets[active]] = -np.inf
            new[(held[active] == sets.shape[1] - 1)[:, None] & ~sets[active]] = -np.inf
            x = (new >= (best := new.max(axis=1, keepdims=True)) - NEAR * np.abs(best)).argmax(axis=1)
            rows = np.arange(len(active))
            now = (square[active] / p[active] - cost[active]) / p[active]
            better = new[rows, x] > now + NEAR * np.abs(now)
            rows, x, active = rows[better], x[better], active[better]
            if not len(active):
                break
            d = step[rows, x]
            square[active] += d * (2 * Yu[active, x] + d * diagonal[x])
            p[active] += d * self.prior[x]
            cost[active] += d * self.lam[x]
            Yu[active] += d[:, None] * self.Y[x]
            held[active] += np.where(d > 0, 1, -1)
            sets[active, x] ^= True
        return sets


def every_set(size: int) -> Members:
    """All sets but the empty one and the whole domain."""
    number = np.arange(1, 2**size - 1)
    return (number[:, None] >> np.arange(size)) & 1 == 1


def distinct(members: Members) -> Members:
    """The sets, each once, in the order of first appearance."""
    _, first = np.unique(np.packbits(members, axis=1), axis=0, return_index=True)
    return members[np.sort(first)]


def square_root(matrix: Floats) -> Floats:
    """The symmetric root, which is one and the same whatever eigenvectors a processor finds for equal eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values = np.where(values > NEAR * values.max(), values, 0.0)
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T, dtype=np.float64)


def cut_normals(covariance: Floats, count: int, gamma: float, rng: np.random.Generator) -> Members:
    """Random sets: the values where a normal vector of this covariance is largest, about 1 / (gamma + 1) of them."""
    drawn = to_digits(rng.standard_normal((count, len(covariance))) @ square_root(covariance), 9)
    # around the share that shows most of a record; a spread of thresholds gives sets of several sizes
    share = np.clip(1 / (gamma + 1) * np.exp(0.5 * rng.standard_normal(count)), 0.02, 0.98)
    order = np.argsort(-drawn, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(covariance))[None, :], axis=1)
    width = np.clip(np.rint(share * len(covariance)), 1, len(covariance) - 1)
    return ranks < width[:, None]


# --- channel design ---------------------------------------------------------------------------------------------------


SEED = 1307
MOST_VALUES = 128  # time grows like the cube of the domain
GAP = 0.01
ROUNDS = 30
STILL = 4  # stops where so many rounds together gain less than a tenth of the gap asked for
KEPT = 6  # sets per value kept from round to round, besides singletons,
KEPT_ALWAYS = 300  # and at least so many: small problems need no thrift
ADDED = 3  # sets per value added in a round, at most
LOOSE = 0.01  # how far from their best, relative, the weights of an early list may stay
LIFT = 0.05  # share of even weights in the start of a round
UNIT = 2**40  # of the whole-number weights
DECIMALS = 10  # of weights that are kept; later ones depend on the processor
DIGITS = 6  # of weights, and
WORTH_DIGITS = 8  # of what sets are worth, that decide which sets are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a progress bar shows after each round."""

    round: int
    variance: float
    gap: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """An optimised channel and how good it is: `variance` per record, mean over true values by the prior."""

    channel: SetChannel
    prior: Floats
    variance: float
    least: float  # the bound that no channel passes
    gap: float  # 1 - (lower bound on the optimum) / variance
    certified: bool  # the bound is a proof; else it holds among the sets that the search tried
    rounds: int


def optimise(
    gram: Floats,
    gamma: Fraction,
    prior: Floats | None = None,
    *,
    gap: float = GAP,
    rounds: int = ROUNDS,
    seed: int = SEED,
    progress: Callable[[Progress], None] | None = None,
) -> Design:
    """The channel of amplification gamma with the least total variance for questions G = W'W.

    Stops when the gap to the best that pricing can see is `gap`, after `rounds`, or where rounds no longer help.
    """
    size = len(gram)
    _check(gram, gamma, size)
    pi = checked_prior(size, prior)
    # a list's weights come ten times nearer to their best than the list must to the best list
    search = _Search(gram, gamma, pi, np.random.default_rng((seed, size)), gap / 10)
    number, seen = 0, [search.variance]
    while search.gap > gap and search.open and number < rounds:
        number += 1
        search.turn()
        seen.append(search.variance)
        if progress is not None:
            progress(Progress(round=number, variance=search.variance, gap=search.gap))
        if size > ALL_SETS and number >= STILL and seen[-1] > (1 - gap / 10) * seen[-1 - STILL]:
            break
    members, weights = exact_weights(*search.expanded())
    channel = SetChannel(gamma=gamma, members=members, weights=weights)
    return Design(
        channel=channel,
        prior=pi,
        variance=search.variance,
        least=search.least,
        gap=search.gap,
        certified=search.certified,
        rounds=number,
    )


class _Search:
    """The list and its weights as the rounds go on. Singletons always lead the list.

    With mirrored questions the list holds one of each pair of mirror images, and its weight counts for both together.
    """

    def __init__(
        self, gram: Floats, gamma: Fraction, prior: Floats, rng: np.random.Generator, tolerance: float
    ) -> None:
        self.prior, self.gamma, self.rng, self.tolerance = prior, float(gamma), rng, tolerance
        self.size = size = len(prior)
        self.gram = centred(gram, prior)
        if np.trace(self.gram) <= 1e-12 * np.abs(gram).max() * size:
            raise SpecError("the workload asks only what every release answers exactly", field="workload")
        self.once = float(prior @ np.diag(self.gram))  # what the truth itself varies: no error
        self.least = least_total(gram, gamma, prior)
        self.mirrored = _same(self.gram, self.gram[::-1, ::-1]) and _same(prior, prior[::-1])
        if self.mirrored:
            self.gram = (self.gram + self.gram[::-1, ::-1]) / 2
        self.programme = WeightProgramme(gram=self.gram, prior=prior, excess=self.gamma - 1, mirrored=self.mirrored)
        r = np.sqrt(prior)
        root = square_root(r[:, None] * self.gram * r)  # (G')^1/2: what the best M' is like
        drawn = cut_normals(root, 4 * size, self.gamma, rng)
        self.singles = (size + 1) // 2 if self.mirrored else size
        singletons = np.eye(size, dtype=bool)[: self.singles]
        self.members: Members = distinct(np.concatenate([singletons, self._one_of_two(drawn)]))
        self.fresh = self.members[:0]
        self.worth: Floats = np.zeros(0)
        self._weigh(self._mended(np.ones(len(self.members))), 1.0)

    @property
    def variance(self) -> float:
        """Total variance per record."""
        return self.found.value - self.once

    @property
    def open(self) -> bool:
        """Whether another turn can help: there are sets to take in, or weights to make exact."""
        return len(self.fresh) > 0 or self.reached > self.tolerance

    @property
    def priced(self) -> float:
        """A bound on the optimum: f^2 / (lam.1 + delta), delta the largest worth of a set tried (of all: certain)."""
        f = self.found.value
        return f**2 / (float(self.found.lam.sum()) + float(self.worth.max())) - self.once

    @property
    def gap(self) -> float:
        """1 - bound / variance with the better of the two bounds."""
        return 1 - max(self.priced, self.least) / self.variance

    @property
    def certified(self) -> bool:
        """Whether the gap is proved: all sets were tried, or the bound for all channels is the better one."""
        return self.size <= ALL_SETS or self.least >= self.priced

    def turn(self) -> None:
        """Takes in the sets that help most, drops the lightest, weighs the list and prices again."""
        most = max(KEPT * self.size, KEPT_ALWAYS)
        heavy = self.singles + _heaviest(self.found.c[self.singles :], most)
        kept = np.concatenate([np.arange(self.singles), np.sort(heavy)])
        self.members = np.concatenate([self.members[kept], self.fresh])
        old = np.concatenate([self.found.c[kept], np.zeros(len(self.fresh))])
        mended = self._mended(old)
        # a start away from the boundary, as far from the old optimum as the new one is likely to be
        self._weigh((1 - LIFT) * mended + LIFT * self._mended(np.ones(len(old))), LIFT)

    def expanded(self) -> tuple[Members, Floats]:
        """The list with mirror images spelled out, and its weights."""
        if not self.mirrored:
            return self.members, self.found.c
        own = (self.members == self.members[:, ::-1]).all(axis=1)
        sets = np.concatenate([self.members, self.members[~own][:, ::-1]])
        return sets, np.concatenate([np.where(own, self.found.c, self.found.c / 2), self.found.c[~own] / 2])

    def _mended(self, c: Floats) -> Floats:
        return feasible(shares(self.members, self.mirrored), c, self.gamma - 1, self.singles)

    def _one_of_two(self, members: Members) -> Members:
        """Of a set and its mirror image always the same one."""
        if not self.mirrored:
            return members
        differs = members != members[:, ::-1]
        first = differs.argmax(axis=1)
        swap = differs.any(axis=1) & ~members[np.arange(len(members)), first]
        return np.where(swap[:, None], members[:, ::-1], members)

    def _weigh(self, start: Floats, gap: float) -> None:
        # far from the best list its weights need not be exact
        self.reached = max(self.tolerance, min(self.gap / 20, LOOSE)) if len(self.fresh) else self.tolerance
        self.found = self.programme.solve(self.members, start, gap, self.reached)
        self._price()

    def _price(self) -> None:
        """Finds sets and what they are worth; `fresh` are the new ones that help, best first."""
        prices = Prices(Y=self.found.Y, lam=self.found.lam, prior=self.prior, excess=self.gamma - 1)
        if self.size <= ALL_SETS:
            tried = every_set(self.size)
        else:
            heavy = self.members[_heaviest(self.found.c, 4 * self.size)]
            drawn = cut_normals(self.found.Y, 2 * self.size, self.gamma, self.rng)
            tried = np.concatenate([self.members, prices.climb(np.concatenate([heavy, drawn]), 2 * self.size)])
        tried = distinct(self._one_of_two(tried))
        self.worth = to_digits(prices.worth(tried), WORTH_DIGITS)
        order = np.argsort(-self.worth, kind="stable")
        helping = tried[order[self.worth[order] > 0]]
        known = {row.tobytes() for row in np.packbits(self.members, axis=1)}
        new = [i for i, row in enumerate(np.packbits(helping, axis=1)) if row.tobytes() not in known]
        self.fresh = helping[new[: ADDED * self.size]]


def _heaviest(c: Floats, most: int) -> NDArray[np.intp]:
    """Where the largest weights are, the largest first."""
    return np.argsort(-to_digits(c, DIGITS), kind="stable")[:most]


def _same(first: Floats, second: Floats) -> bool:
    return bool(np.abs(first - second).max() <= 1e-10 * np.abs(first).max())


def exact_weights(members: Members, c: Floats, unit: int = UNIT) -> tuple[Members, Integers]:
    """Whole numbers: n_Z = floor(unit c_Z), then singletons so that every value is covered by the same weight.

    Ratios need no mending: they are gamma by construction. Decimals of c that depend on the processor are left out.
    """
    size = members.shape[1]
    weights = np.floor(np.round(c, DECIMALS) * unit).astype(np.int64)
    table: dict[bytes, tuple[Members, int]] = {}
    for row, weight in zip(members, weights.tolist(), strict=True):
        if weight > 0:
            table[row.tobytes()] = (row, weight)
    coverage = sum((row * np.int64(weight) for row, weight in table.values()), np.zeros(size, dtype=np.int64))
    for x in np.flatnonzero(coverage < coverage.max()):
        row = np.zeros(size, dtype=bool)
        row[x] = True
        before = table.get(row.tobytes(), (row, 0))[1]
        table[row.tobytes()] = (row, before + int(coverage.max() - coverage[x]))
    rows = list(table.values())
    return np.array([row for row, _ in rows]), np.array([weight for _, weight in rows], dtype=np.int64)


def _check(gram: Floats, gamma: Fraction, size: int) -> None:
    if gamma <= 1:
        raise SpecError(f"gamma must be above 1, got {gamma}", field="gamma")
    if size > MOST_VALUES:
        raise SpecError(
            f"a workload needs a column of at most {MOST_VALUES} values, not {size}; put it into bins (--bins)",
            field="workload",
        )
    if gram.shape != (size, size) or size < 2 or not np.isfinite(gram).all():
        raise SpecError("a workload needs finite coefficients over at least two values", field="workload")


# The questions a channel is made for, as matrices G = W'W over an ordered domain of m values.
#
# Only G matters for the total variance of the questions W. A mix weighs each workload by its share divided by the
# variance it has under subset response, so that shares speak of like things.


OPEN_SHARE = 1e-4  # share of the histogram added where a workload leaves questions open


def histogram(size: int) -> Floats:
    """Every single value counted."""
    return np.eye(size)


def prefixes(size: int) -> Floats:
    """Counts of x <= v for every value v: G[x, y] = m - max(x, y)."""
    codes = np.arange(size)
    return (size - np.maximum.outer(codes, codes)).astype(np.float64)


def ranges(size: int) -> Floats:
    """Counts of u <= x <= v for all u <= v: G[x, y] = (min + 1) (m - max)."""
    codes = np.arange(size)
    return ((np.minimum.outer(codes, codes) + 1) * (size - np.maximum.outer(codes, codes))).astype(np.float64)


def weighted_sum(values: Sequence[float] | Floats) -> Floats:
    """The sum of a number per value."""
    v = np.asarray(values, dtype=np.float64)
    return np.outer(v, v)


def gram_of(rows: Floats) -> Floats:
    """Any linear questions, one row of coefficients each."""
    return np.asarray(rows.T @ rows, dtype=np.float64)


def centred(gram: Floats, prior: Floats) -> Floats:
    """G with every question h replaced by h - h.pi: the same errors, since a constant is answered exactly."""
    shift = gram @ prior
    return gram - shift[:, None] - shift[None, :] + prior @ shift


def subset_variance(gram: Floats, gamma: Fraction, prior: Floats | None = None) -> float:
    """Total variance per record of the questions under subset response, all best subsets, weights for a flat prior."""
    size = len(gram)
    pi = np.full(size, 1 / size) if prior is None else prior
    w = best_width(size, gamma)
    a, b = (float(rate) for rate in hit_rates(size, gamma, w))
    # omega_h = (h(Z) - b sum h) / (a - b); the variance of section 5's closed form with t = h(x), mean over x by pi
    diagonal, rows = np.diag(gram), gram.sum(axis=1)
    every, square = rows.sum(), diagonal.sum()
    pairs = 0.0 if size == 2 else (a * (w - 1) * (size - w) + (1 - a) * w * (size - 1 - w)) / (size - 2)
    # sums over questions of t^2, t (H - t), (H - t)^2 for each true value x
    tt, th, hh = diagonal, rows - diagonal, every - 2 * rows + diagonal
    own = tt - 2 * th / (size - 1) + hh / (size - 1) ** 2
    other = (square - tt) / (size - 1) - hh / (size - 1) ** 2
    return float(pi @ (a * (1 - a) * own + pairs * other)) / (a - b) ** 2


def mixture(grams: Sequence[Floats], shares: Sequence[float], gamma: Fraction, floor: float = OPEN_SHARE) -> Floats:
    """G of several workloads, and `floor` of the histogram so that every question stays answerable."""
    if not grams or len(grams) != len(shares) or min(shares) < 0 or sum(shares) <= 0:
        raise SpecError("a mix needs a share of at least 0 for each workload, and one above 0", field="workload")
    mixed = np.zeros_like(grams[0])
    whole = float(sum(shares))
    for gram, share in zip([*grams, histogram(len(mixed))], [*(s / whole for s in shares), floor], strict=True):
        variance = subset_variance(gram, gamma)
        if share > 0 and variance <= 0:
            raise SpecError("a workload asks only what every release answers exactly", field="workload")
        if share > 0:
            mixed += share / variance * gram
    return mixed


# The questions that a publisher declares, from text to matrices: `ranges`, or `ranges:0.4,sum:0.4,histogram:0.2`.


KINDS = ("histogram", "prefixes", "ranges", "sum")
IN_SQL = "questions in SQL (--workload FILE.sql; in Python their text)"
FLOOR = 0.05  # share of the histogram that is always added, so that single values stay answerable
WORKLOAD_FIELD = {  # of the field of a specification
    "help": "questions to be made for: histogram, prefixes, ranges, sum, FILE.sql, or a mix: ranges:1,FILE.sql:2",
    "example": "ranges",
    "file": "sql",
}
SQL = "sql"
ALONE = "histogram"  # the workload for which subset response is the best channel


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredWorkload:
    """Kinds of questions and their shares, which add up to 1."""

    shares: tuple[tuple[str, float], ...]
    sql: str | None = None  # the questions of the kind "sql"
    order: tuple[int, ...] | None = None  # place of every value, where it is not that of the domain (bins)

    @property
    def plain(self) -> bool:
        """Only single values are asked for: no channel beats subset response."""
        return all(kind == ALONE for kind, _ in self.shares)

    def gram(
        self, domain: Domain, gamma: Fraction, values: Codes | None = None, questions: Floats | None = None
    ) -> Floats:
        """G of the mix over the values of a domain, in their order; or as it falls on some of the values."""
        shares = [share for _, share in self.shares]
        grams = []
        for kind, _ in self.shares:
            if kind != SQL:
                grams.append(_gram(kind, domain, self.order))
                continue
            assert questions is not None, "questions in SQL are read before a plan is made"
            grams.append(gram_of(_weighed_alike(questions)))
        if values is not None:  # a sub-table may hold no two values that a question tells apart
            own = [(g[np.ix_(values, values)], share) for g, share in zip(grams, shares, strict=True)]
            told = [(g, share) for g, share in own if _told_apart(g)] or [(histogram(len(values)), 1.0)]
            grams, shares = [g for g, _ in told], [share for _, share in told]
        return mixture(grams, shares, gamma, FLOOR)


def parse_workload(text: str | None) -> DeclaredWorkload | None:
    """The workload that a text names; None stays None; SpecError for anything else."""
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip():
        raise SpecError(f"workload must be a text such as ranges or ranges:0.5,sum:0.5, got {text!r}", field="workload")
    mix, sql = _parted(text.strip())
    shares: dict[str, float] = {}
    for item in mix.split(","):
        kind, colon, number = (part.strip() for part in item.partition(":"))
        if kind == SQL and sql is None:
            raise SpecError(
                "the questions of the workload sql are missing: ranges:1,sql:2; SELECT ...", field="workload"
            )
        if kind not in KINDS and kind != SQL:
            known = f"{', '.join(KINDS)}, or {IN_SQL}"
            raise SpecError(f'workload "{kind}" is not known; workloads: {known}', field="workload")
        if kind in shares:
            raise SpecError(f'workload "{kind}" is named twice', field="workload")
        try:
            shares[kind] = float(number) if colon else 1.0
        except ValueError:
            raise SpecError(f'the share of "{kind}" must be a number, got "{number}"', field="workload") from None
        if not 0 < shares[kind] < float("inf"):
            raise SpecError(f'the share of "{kind}" must be a finite number above 0, got {number}', field="workload")
    if sql is not None and SQL not in shares:
        raise SpecError("the workload has questions in SQL and gives them no share: ranges:1,sql:2", field="workload")
    whole = sum(shares.values())
    return DeclaredWorkload(shares=tuple((kind, share / whole) for kind, share in shares.items()), sql=sql)


def _parted(text: str) -> tuple[str, str | None]:
    """(kinds with their shares, questions in SQL) of a workload; SQL alone has all of it."""
    if text.lower().startswith("select"):
        return SQL, text
    mix, _, sql = text.partition(";")
    return mix, sql.strip() or None


def check_workload(workload: DeclaredWorkload, domain: Domain, limit: int | None = MOST_VALUES) -> None:
    """Refuse domains on which the workload has no meaning, or that are too large for its search."""
    if workload.plain:
        return
    if len(domain.columns) > 1:
        raise SpecError("a compound value has no order; its only workload is histogram", field="workload")
    name = domain.columns[0]
    if limit is not None and len(domain) > limit:
        raise SpecError(
            f'a workload needs at most {limit} values and "{name}" has {len(domain)}; give --bins, or round it first',
            field="workload",
        )
    if all(kind in {SQL, ALONE} for kind, _ in workload.shares):
        return
    if workload.order is not None:
        if any(kind == "sum" for kind, _ in workload.shares):
            raise SpecError(f'"{name}" is published as bins, which have no sum', field="workload")
        return
    kinds = {type(value) for (value,) in domain.values}
    ordered = kinds - {bool, type(None), str}
    if not ordered or len(kinds) > 1:
        raise SpecError(
            f'"{name}" is not a column of numbers or dates without missing values, so it has no ranges or sums; '
            f"its workloads are histogram and {IN_SQL}",
            field="workload",
        )
    if any(kind == "sum" for kind, _ in workload.shares) and not kinds <= {int, float, Decimal}:
        raise SpecError(f'"{name}" does not hold numbers, so there is no sum of it', field="workload")


def design(
    workload: DeclaredWorkload,
    domain: Domain,
    gamma: Fraction,
    questions: Floats | None = None,
    *,
    watch: Watch | None = None,
) -> Design:
    """The channel made for the workload over the values of a domain; `questions` are those that its SQL asks."""
    check_workload(workload, domain)
    return _watched(workload.gram(domain, gamma, questions=questions), gamma, watch)


def design_within(
    workload: DeclaredWorkload,
    domain: Domain,
    values: Codes,
    gamma: Fraction,
    questions: Floats | None = None,
    *,
    watch: Watch | None = None,
) -> Design:
    """The channel of a sub-table that holds some of the domain's values, made for the questions of the whole."""
    return _watched(workload.gram(domain, gamma, values, questions), gamma, watch)


def _watched(gram: Floats, gamma: Fraction, watch: Watch | None) -> Design:
    """The search; after every round it says how far at most its channel is from the best."""
    if watch is None:
        return optimise(gram, gamma)
    return optimise(gram, gamma, progress=lambda at: watch(f"workload, gap {at.gap:.1%}", at.round, ROUNDS))


def planned_list(found: Design) -> PlannedList:
    """The design's list as a plan states it."""
    weights = tuple(found.channel.weights.tolist())
    return PlannedList(sets=found.channel.sets(), cyclic=False, weights=weights)


def _weighed_alike(questions: Floats) -> Floats:
    """Every question less its mean, of length 1: the variance that it has under subset response is then the same.

    So a file may ask for counts and sums, and the unit of a sum does not decide what the list is made for.
    """
    moved = questions - questions.mean(axis=1, keepdims=True)
    moved = moved / np.abs(moved).max(axis=1, keepdims=True)  # squares of very large and very small numbers stay finite
    return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True))


def _deviations(numbers: Sequence[Any]) -> Floats:
    """Numbers less their mean, which every release answers exactly, over the largest; worked out in fractions."""
    exact = [Fraction(number) for number in numbers]
    mean: Fraction = sum(exact, Fraction(0)) / len(exact)
    largest = max(abs(number - mean) for number in exact)
    return np.array([float((number - mean) / largest) for number in exact])


def _told_apart(gram: Floats) -> bool:
    flat = np.full(len(gram), 1 / len(gram))
    return float(np.trace(centred(gram, flat))) > 1e-9 * max(float(np.abs(gram).max()), 1e-300)


def _gram(kind: str, domain: Domain, order: tuple[int, ...] | None) -> Floats:
    size = len(domain)
    if order is not None and kind in {"prefixes", "ranges"}:
        return _gram(kind, domain, None)[np.ix_(order, order)]
    if kind == "sum":
        return weighted_sum(_deviations([value for (value,) in domain.values]))
    return {"histogram": histogram, "prefixes": prefixes, "ranges": ranges}[kind](size)
