"""Samples of fixed size with given inclusion probabilities: odds and pair probabilities.

A row of a uniformly random 0/1 table with given margins is, for many rows, a conditional Poisson sample: independent
coins with odds w, given that `size` fall on heads (docs/explanation/splu.md, 5.1). With e_k the elementary symmetric
polynomials of w,

    Pr(s) = w_s e_{size-1}(w without s) / e_size,    Pr(u and s) = w_u w_s e_{size-2}(w without u, s) / e_size.

Leaving a value out by e_k(without s) = e_k - w_s e_{k-1}(without s) is stable while Pr(s) is small, because each step
multiplies the error by odds below 1. The few values above `FREQUENT` (at most size / FREQUENT) are multiplied out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..model.public import Floats
from .grouping import Counts, largest_buckets, random_margins_chain, slot_table

FREQUENT = 0.25  # inclusion probability above which a value is left out by multiplication, not by subtraction
ROUNDS = 2_000
TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMatrix:
    """A[u, s] = Pr(u and s), A[u, u] = Pr(u), as diagonal + W Q W^T of small rank."""

    inclusion: Floats
    diagonal: Floats
    factor: Floats  # W, (values, rank)
    core: Floats  # Q, (rank, rank)

    def apply(self, vectors: Floats) -> Floats:
        """A v for each column v, O(values * rank)."""
        scaled = self.diagonal * vectors if vectors.ndim == 1 else self.diagonal[:, None] * vectors
        return scaled + self.factor @ (self.core @ (self.factor.T @ vectors))

    def dense(self) -> Floats:
        """A in full, for few values."""
        return np.diag(self.diagonal) + self.factor @ self.core @ self.factor.T


def fit_odds(inclusion: Floats, size: int) -> Floats:
    """Odds w, summing to `size`, whose conditional Poisson sample of `size` has these inclusion probabilities.

    The probabilities lie strictly between 0 and 1 and sum to `size`. Fixed point of
    w_s = pi_s / (1 - pi_s) * e_size(w without s) / e_{size-1}(w without s); usually under ten rounds.
    """
    frequent = inclusion > FREQUENT
    wanted = inclusion / (1 - inclusion)
    odds = wanted.copy()
    for _ in range(ROUNDS):
        odds *= size / odds.sum()  # the sample does not depend on the scale, the size of e_k does
        without = leave_one_out(odds, size, frequent)
        ratio = wanted * without[:, size] / without[:, size - 1] / odds
        odds *= ratio
        if np.ptp(ratio) <= TOLERANCE * ratio.max():
            break
    return odds * (size / odds.sum())


def pair_matrix(inclusion: Floats, size: int) -> PairMatrix:
    """The pair probabilities of the conditional Poisson sample with these inclusion probabilities.

    For rare values A = D + U K U^T with U[s, i] = (-1)^i w_s^(i+1), K[i, j] = e_{size-2-i-j} / e_size. Rows and columns
    of frequent values, where D can vanish, are written out and enter the low-rank part.
    """
    odds = fit_odds(inclusion, size)
    frequent = inclusion > FREQUENT
    rare = ~frequent
    total = symmetric_polynomials(odds, size)
    hankel = np.array([[total[size - 2 - i - j] if i + j <= size - 2 else 0.0 for j in range(size - 1)]
                       for i in range(size - 1)]) / total[size]  # fmt: skip
    powers = -np.power(-odds[:, None], np.arange(1, size)[None, :]) * rare[:, None]

    once = leave_one_out(odds, size, frequent)
    twice = _divide(once, odds, size - 1)  # e_k without u, divided by (1 + w_u t) once more
    diagonal = np.where(rare, odds * twice[:, size - 1] / total[size], inclusion)

    rows = _frequent_rows(odds, size, np.flatnonzero(frequent), total[size], inclusion)  # (frequent, values)
    count = len(rows)
    unit = np.zeros((len(odds), count))
    unit[np.flatnonzero(frequent), np.arange(count)] = 1
    inner = rows[:, frequent] - np.diag(inclusion[frequent])
    eye, none = np.eye(count), np.zeros((count, size - 1))
    core = np.block([[inner, eye, none], [eye, np.zeros((count, count)), none], [none.T, none.T, hankel]])
    factor = np.hstack([unit, (rows * rare).T, powers])
    return PairMatrix(inclusion=inclusion, diagonal=diagonal, factor=factor, core=core)


def symmetric_polynomials(odds: Floats, degree: int) -> Floats:
    """e_0 .. e_degree of the odds, by a balanced product of the factors 1 + w t (all terms positive: stable)."""
    level = np.ones((len(odds), 2))
    level[:, 1] = odds
    while len(level) > 1:
        if len(level) % 2:
            level = np.vstack([level, np.eye(1, level.shape[1])])
        left, right = level[::2], level[1::2]
        width = min(degree + 1, 2 * level.shape[1] - 1)
        level = np.zeros((len(left), width))
        for k in range(min(width, left.shape[1])):
            stop = min(width, k + right.shape[1])
            level[:, k:stop] += left[:, k : k + 1] * right[:, : stop - k]
    found = np.zeros(degree + 1)
    if len(level):
        found[: min(degree + 1, level.shape[1])] = level[0, : degree + 1]
    else:
        found[0] = 1
    return found


def leave_one_out(odds: Floats, degree: int, frequent: NDArray[np.bool_]) -> Floats:
    """Row s holds e_0 .. e_degree of the odds without s."""
    total = symmetric_polynomials(odds, degree)
    found = _divide(np.broadcast_to(total, (len(odds), degree + 1)), odds, degree)
    where = np.flatnonzero(frequent)
    if len(where):
        found[where] = _without_each(symmetric_polynomials(odds[~frequent], degree), odds[where])
    return found


def _divide(polynomials: Floats, odds: Floats, degree: int) -> Floats:
    """Row s divided by 1 + w_s t, up to t^degree."""
    found = np.empty((len(odds), degree + 1))
    found[:, 0] = polynomials[:, 0]
    for k in range(1, degree + 1):
        found[:, k] = polynomials[:, k] - odds * found[:, k - 1]
    return found


def _without_each(base: Floats, odds: Floats) -> Floats:
    """Row i: base times the factors 1 + w t of all odds but the i-th."""
    degree = len(base) - 1

    def times(polynomial: Floats, w: float) -> Floats:
        return np.concatenate((polynomial[:1], polynomial[1:] + w * polynomial[:-1]))

    before, after = [base], [np.eye(1, degree + 1)[0]]
    for w in odds[:-1]:
        before.append(times(before[-1], w))
    for w in odds[:0:-1]:
        after.append(times(after[-1], w))
    return np.array([np.convolve(b, a)[: degree + 1] for b, a in zip(before, reversed(after), strict=True)])


def _frequent_rows(odds: Floats, size: int, frequent: NDArray[np.intp], top: float, inclusion: Floats) -> Floats:
    """A[u, :] for each frequent u, all terms positive or left out stably."""
    rare = np.ones(len(odds), bool)
    rare[frequent] = False
    base = symmetric_polynomials(odds[rare], size)
    rows = np.zeros((len(frequent), len(odds)))
    for i, u in enumerate(frequent):
        others = np.delete(frequent, i)
        without_u = _without_each(base, odds[frequent])[i]
        pair = _divide(np.broadcast_to(without_u, (len(odds), size + 1)), odds, size - 2)[:, size - 2]
        if len(others):
            pair[others] = _without_each(base, odds[others])[:, size - 2]
        rows[i] = odds[u] * odds * pair / top
        rows[i, u] = inclusion[u]
    return rows


# --- decoy channel ----------------------------------------------------------------------------------------------------
# The channel of a decoy release, rebuilt from the published histogram alone (docs/explanation/splu.md, 5.1).
#
# M[u, s] is the chance that a record of true value u is published as s. Two ways to the same channel:
#
# * closed form, for 1000 groups or more: a group is a conditional Poisson sample, M[u, s] = A[u, s] / (size * pi_u);
# * replay, for fewer groups: the publisher's grouping rule is run again on the published histogram and averaged.
#
# Both depend on the published counts only: the same question gets the same answer every time.


Apply = Callable[[Floats], Floats]

CLOSED_FORM_GROUPS = 1_000  # below, the closed form is off by O(1 / groups)
REPLAYS = 60  # their mean adds 1/60 of the variance that one grouping has around its mean
LARGEST_REPLAYS = 3
REPLAY_VALUES = 300  # a replayed channel is a table; with more values its noise outweighs the closed form's error
TABLE_VALUES = 256  # up to here the inverse is kept as a table
CONDITION_LIMIT = 1e4
ROW_SPACE_TOLERANCE = 1e-6


class Matrix(Protocol):
    """M with its inverse; arguments are one vector over the values, or columns of them."""

    def forward(self, values: Floats) -> Floats:
        """M c: what a record of each true value publishes on average, for a number c per value."""

    def backward(self, values: Floats) -> Floats:
        """M^T c: how often every value is published on average, for c records of each true one."""

    def weights(self, values: Floats) -> Floats:
        """M^-1 c: the number each published value must carry so that sums estimate those of c without bias."""

    def estimate(self, observed: Floats) -> Floats:
        """(M^T)^-1 y: the true count of every value, from published counts y."""

    def squares(self, observed: Floats) -> Floats:
        """(B o B) y with B = (M^T)^-1, entry by entry: the first term of the variance of every value's estimate."""

    def own_weights(self) -> Floats:
        """The diagonal of M^-1: what a row that shows s adds to the count of s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMatrix:
    """M and its (pseudo-)inverse in full."""

    matrix: Floats
    inverse: Floats

    def forward(self, values: Floats) -> Floats:
        """M c."""
        return self.matrix @ values

    def backward(self, values: Floats) -> Floats:
        """M^T c."""
        return self.matrix.T @ values

    def weights(self, values: Floats) -> Floats:
        """M^-1 c."""
        return self.inverse @ values

    def estimate(self, observed: Floats) -> Floats:
        """(M^T)^-1 y."""
        return self.inverse.T @ observed

    def squares(self, observed: Floats) -> Floats:
        """(B o B) y."""
        return (self.inverse**2).T @ observed

    def own_weights(self) -> Floats:
        """The diagonal of M^-1."""
        return np.diag(self.inverse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """Every row of M is the histogram: no value can be told from another."""

    share: Floats

    def forward(self, values: Floats) -> Floats:
        """M c, the same for every true value."""
        return np.broadcast_to(self.share @ values, values.shape)

    def backward(self, values: Floats) -> Floats:
        """M^T c."""
        return np.multiply.outer(self.share, values.sum(axis=0))

    def weights(self, values: Floats) -> Floats:
        """The pseudo-inverse is of no use: nothing is answered from it."""
        return np.zeros(values.shape)

    estimate = weights
    squares = weights

    def own_weights(self) -> Floats:
        """Of no use either."""
        return np.zeros(len(self.share))


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRank:
    """M = diag(1 / (size pi)) A with A = D + W Q W^T and A^-1 = D^-1 - left right^T: no table of values by values."""

    size: int
    pairs: PairMatrix
    left: Floats
    right: Floats

    @classmethod
    def of(cls, pairs: PairMatrix, size: int) -> LowRank:
        """Woodbury without inverting Q: A^-1 = D^-1 - D^-1 W (I + Q W^T D^-1 W)^-1 Q W^T D^-1."""
        right = pairs.factor / pairs.diagonal[:, None]
        gram = pairs.factor.T @ right
        left = right @ np.linalg.solve(np.eye(len(gram)) + pairs.core @ gram, pairs.core)
        return cls(size=size, pairs=pairs, left=left, right=right)

    def forward(self, values: Floats) -> Floats:
        """M c."""
        return _rows(1 / (self.size * self.pairs.inclusion), self.pairs.apply(values))

    def backward(self, values: Floats) -> Floats:
        """M^T c."""
        return self.pairs.apply(_rows(1 / (self.size * self.pairs.inclusion), values))

    def weights(self, values: Floats) -> Floats:
        """M^-1 c."""
        return self.size * self._solve(_rows(self.pairs.inclusion, values))

    def estimate(self, observed: Floats) -> Floats:
        """(M^T)^-1 y."""
        return _rows(self.size * self.pairs.inclusion, self._solve(observed))

    def squares(self, observed: Floats) -> Floats:
        """(B o B) y, from sum_j (left_s . right_j)^2 y_j = left_s^T (right^T diag(y) right) left_s."""
        inverse = 1 / self.pairs.diagonal
        diagonal = inverse**2 - 2 * inverse * np.einsum("sa,sa->s", self.left, self.right)
        columns = observed[:, None] if observed.ndim == 1 else observed
        found = _rows(diagonal, columns)
        for k in range(columns.shape[1]):
            inner = (self.right * columns[:, k : k + 1]).T @ self.right
            found[:, k] += np.einsum("sa,sa->s", self.left @ inner, self.left)
        found = _rows((self.size * self.pairs.inclusion) ** 2, found)
        return found[:, 0] if observed.ndim == 1 else found

    def own_weights(self) -> Floats:
        """The diagonal of M^-1."""
        return (
            self.size * self.pairs.inclusion * (1 / self.pairs.diagonal - np.einsum("sa,sa->s", self.left, self.right))
        )

    def condition(self, rounds: int = 60) -> float:
        """The condition number of M, by power iteration on M^T M and on its inverse from a fixed start."""
        forward = _norm(self.forward, self.backward, len(self.left), rounds)
        return forward * _norm(self.weights, self.estimate, len(self.left), rounds)

    def _solve(self, vectors: Floats) -> Floats:
        return _rows(1 / self.pairs.diagonal, vectors) - self.left @ (self.right.T @ vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoyChannel:
    """The channel over the values that were published: `active` holds their positions in the declared domain.

    `published` is the published histogram of these values, `counts` the same capped at what groups of `size` allow.
    """

    active: NDArray[np.intp]
    size: int
    counts: Floats
    published: Floats
    condition: float
    identifiable: NDArray[np.bool_]
    matrix: Matrix

    def total_variance(self, values: Floats) -> Floats:
        """Variance of sum_s c_s f'_s over the slots' draws, for columns c: f (1 - 1 / size) for a single value.

        sum_u f_u (c_u^2 - c_u (M c)_u), because f_u M[u, s] sums 1 / |g| over the groups that hold u and s.
        """
        return np.maximum(0.0, self.counts @ (values * (values - self.matrix.forward(values))))


def rebuild_channel(
    published_counts: Counts, size: int, *, seed: int | NDArray[np.uint32], largest: bool = False
) -> DecoyChannel:
    """The channel for a published histogram over the declared domain; readers take that histogram as `seed`.

    `largest`: the publisher grouped by largest buckets, which can only be replayed, and badly. A reader
    who assumes another rule than the publisher's gets answers worse than none.
    """
    published_counts = np.asarray(published_counts, dtype=np.int64)
    active = np.flatnonzero(published_counts)
    counts = cap_counts(published_counts[active], size)
    if counts is None:
        found = _blind(active, size, published_counts[active])
    elif largest:
        found = largest_buckets_channel(active, counts, size, np.random.default_rng(seed))
    elif int(counts.sum()) // size < CLOSED_FORM_GROUPS and len(active) <= REPLAY_VALUES:
        found = replay_channel(active, counts, size, np.random.default_rng(seed))
    else:
        found = closed_form_channel(active, counts, size)
    return replace(found, published=published_counts[active].astype(np.float64))


def cap_counts(counts: Counts, size: int) -> Counts | None:
    """The counts with any above floor(N / size) cut to it and the excess given, pro rata, to values with room.

    None when the published values cannot fill groups of `size` distinct ones at all.
    """
    total = int(counts.sum())
    limit = total // size
    if limit == 0 or len(counts) * limit < total:
        return None
    capped = np.minimum(counts, limit)
    while (excess := total - int(capped.sum())) > 0:
        room = limit - capped
        open_values = np.flatnonzero(room)
        share = capped[open_values] * excess // max(1, int(capped[open_values].sum()))
        share = np.minimum(np.maximum(share, 1), room[open_values])
        share = np.minimum(share, np.maximum(0, excess - (np.cumsum(share) - share)))
        capped[open_values] += share
    return capped


def closed_form_channel(active: NDArray[np.intp], counts: Counts, size: int) -> DecoyChannel:
    """The channel of uniformly random groups for these counts."""
    inclusion = counts * (size / counts.sum())
    if (inclusion >= 1).any():
        # A value in every group has the average row of M: A is singular, and the null vector e_u - f / N touches all.
        return _blind(active, size, counts)
    try:
        with np.errstate(all="ignore"):
            matrix = LowRank.of(pair_matrix(inclusion, size), size)
    except np.linalg.LinAlgError:
        matrix = None
    if matrix is None or not np.isfinite(matrix.left).all():
        # Odds to the power of very large groups are beyond floating point: no channel, so no answer is believed.
        return _blind(active, size, counts)
    if len(active) <= TABLE_VALUES:
        return _from_table(active, counts, size, matrix.forward(np.eye(len(active))))
    condition = matrix.condition()
    return DecoyChannel(
        active=active,
        size=size,
        counts=counts.astype(np.float64),
        published=counts.astype(np.float64),
        condition=condition,
        identifiable=np.full(len(active), condition <= CONDITION_LIMIT),
        matrix=matrix,
    )


def replay_channel(
    active: NDArray[np.intp], counts: Counts, size: int, rng: np.random.Generator, *, replays: int = REPLAYS
) -> DecoyChannel:
    """The mean channel of `replays` random groupings of these counts, leftovers attached as the publisher does."""
    slots = np.zeros((len(counts), len(counts)))
    for grouping in random_margins_chain(counts, size, rng, samples=replays):
        slots += slot_table(grouping)
    return _from_table(active, counts, size, slots / (replays * counts[:, None]))


def largest_buckets_channel(
    active: NDArray[np.intp], counts: Counts, size: int, rng: np.random.Generator
) -> DecoyChannel:
    """The mean channel of a few replays of the largest-bucket rule, for comparison with the SPLU paper."""
    slots = np.zeros((len(counts), len(counts)))
    for _ in range(LARGEST_REPLAYS):
        slots += slot_table(largest_buckets(counts, size, rng))
    return _from_table(active, counts, size, slots / (LARGEST_REPLAYS * counts[:, None]))


def _from_table(active: NDArray[np.intp], counts: Counts, size: int, forward: Floats) -> DecoyChannel:
    """The channel of a dense M; values outside its row space are marked, the others answered by the pseudo-inverse."""
    u, sigma, vt = np.linalg.svd(forward)
    kept = sigma * CONDITION_LIMIT > sigma[0]
    inverse = (vt[kept].T / sigma[kept]) @ u[:, kept].T
    outside = np.sqrt(np.maximum(0, 1 - (u[:, kept] ** 2).sum(axis=1)))  # of e_s from the space M^T can tell apart
    return DecoyChannel(
        active=active,
        size=size,
        counts=counts.astype(np.float64),
        published=counts.astype(np.float64),
        condition=float(sigma[0] / sigma[-1]) if sigma[-1] > 0 else np.inf,
        identifiable=outside <= (ROW_SPACE_TOLERANCE if not kept.all() else np.inf),
        matrix=FullMatrix(matrix=forward, inverse=inverse),
    )


def _blind(active: NDArray[np.intp], size: int, counts: Counts) -> DecoyChannel:
    """A channel that tells no value apart: every row is the histogram."""
    share = counts / counts.sum() if len(counts) else np.empty(0)
    return DecoyChannel(
        active=active,
        size=size,
        counts=counts.astype(np.float64),
        published=counts.astype(np.float64),
        condition=np.inf,
        identifiable=np.zeros(len(active), bool),
        matrix=Blind(share=share),
    )


def _norm(operator: Apply, adjoint: Apply, length: int, rounds: int) -> float:
    """The largest singular value of an operator, by power iteration."""
    vector = np.cos(np.arange(length, dtype=np.float64))
    norm = 0.0
    for _ in range(rounds):
        image = operator(vector / np.linalg.norm(vector))
        norm = float(np.linalg.norm(image))
        vector = adjoint(image)
    return norm


def _rows(scale: Floats, vectors: Floats) -> Floats:
    """Each row of `vectors` times its scale, for one vector or for columns of them."""
    return scale * vectors if vectors.ndim == 1 else scale[:, None] * vectors
