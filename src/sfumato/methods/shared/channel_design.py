"""A set channel made for declared questions: the list and its weights with the least total variance.

Sets are added where they help and weights chosen by a convex programme, in turns, until the distance to the optimum
is small (docs/explanation/set-channels.md, section 7). The same input and seed give the same channel; no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.errors import SpecError

from .least_error import least_total
from .set_channel import Floats, Integers, Members, SetChannel
from .set_pricing import ALL_SETS, Prices, cut_normals, distinct, every_set, proper
from .set_weights import WeightProgramme, feasible
from .workload_matrices import centred

SEED = 1307
MOST_VALUES = 128  # time grows like the cube of the domain
GAP = 0.01
ROUNDS = 30
KEPT = 8  # sets per value kept from round to round
ADDED = 2  # sets per value added in a round
LIFT = 0.05  # share of even weights in the start of a round
UNIT = 2**40  # of the whole-number weights
TOLERANCE = 1e-3  # how near the best a list's weights come, relative


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

    Stops when the gap to the best that pricing can see is `gap`, or after `rounds`.
    """
    size = len(gram)
    _check(gram, gamma, size)
    pi = np.full(size, 1 / size) if prior is None else np.asarray(prior, dtype=np.float64)
    search = _Search(gram, gamma, pi, np.random.default_rng((seed, size)))
    number = 0
    while search.gap > gap and len(search.fresh) and number < rounds:
        number += 1
        search.turn()
        if progress is not None:
            progress(Progress(round=number, variance=search.variance, gap=search.gap))
    members, weights = exact_weights(search.members, search.found.c)
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
    """The list and its weights as the rounds go on. The m singletons always lead the list."""

    def __init__(self, gram: Floats, gamma: Fraction, prior: Floats, rng: np.random.Generator) -> None:
        self.prior, self.gamma, self.rng = prior, float(gamma), rng
        self.size = size = len(prior)
        self.gram = centred(gram, prior)
        self.once = float(prior @ np.diag(self.gram))  # what the truth itself varies: no error
        self.least = least_total(gram, gamma, prior)
        self.programme = WeightProgramme(gram=self.gram, prior=prior, excess=self.gamma - 1)
        r = np.sqrt(prior)
        values, vectors = np.linalg.eigh(r[:, None] * self.gram * r)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # (G')^1/2: what the best M' is like
        drawn = cut_normals(root, 2 * size, self.gamma, rng)
        start = np.concatenate([np.eye(size, dtype=bool), drawn, drawn[:, ::-1]])
        self.members: Members = distinct(proper(start))
        self.fresh = self.members[:0]
        self.worth: Floats = np.zeros(0)
        c = feasible(self.members, np.ones(len(self.members)), self.gamma - 1)
        self.found = self.programme.solve(self.members, c, 1.0, TOLERANCE)
        self._price()

    @property
    def variance(self) -> float:
        """Total variance per record."""
        return self.found.value - self.once

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
        m = self.size
        heavy = m + np.argsort(-self.found.c[m:], kind="stable")[: (KEPT - 1) * m]
        kept = np.concatenate([np.arange(m), np.sort(heavy)])
        self.members = np.concatenate([self.members[kept], self.fresh])
        excess = self.gamma - 1
        old = np.concatenate([self.found.c[kept], np.zeros(len(self.fresh))])
        even = feasible(self.members, np.ones(len(old)), excess)
        # a start away from the boundary, as far from the old optimum as the new one is likely to be
        c = (1 - LIFT) * feasible(self.members, old, excess) + LIFT * even
        self.found = self.programme.solve(self.members, c, LIFT, TOLERANCE)
        self._price()

    def _price(self) -> None:
        """Finds sets and what they are worth; `fresh` are the new ones that help, best first, at most 2 m."""
        prices = Prices(Y=self.found.Y, lam=self.found.lam, prior=self.prior, excess=self.gamma - 1)
        if self.size <= ALL_SETS:
            tried = every_set(self.size)
        else:
            heavy = self.members[np.argsort(-self.found.c, kind="stable")[: 4 * self.size]]
            drawn = cut_normals(self.found.Y, 2 * self.size, self.gamma, self.rng)
            climbed = prices.climb(np.concatenate([heavy, heavy[:, ::-1], drawn]), 2 * self.size)
            tried = distinct(np.concatenate([self.members, climbed]))
        self.worth = prices.worth(tried)
        order = np.argsort(-self.worth, kind="stable")
        helping = tried[order[self.worth[order] > 0]]
        known = {row.tobytes() for row in np.packbits(self.members, axis=1)}
        new = [i for i, row in enumerate(np.packbits(helping, axis=1)) if row.tobytes() not in known]
        self.fresh = helping[new[: ADDED * self.size]]


def exact_weights(members: Members, c: Floats, unit: int = UNIT) -> tuple[Members, Integers]:
    """Whole numbers: n_Z = floor(unit c_Z), then singletons so that every value is covered by the same weight.

    Ratios need no mending: they are gamma by construction.
    """
    size = members.shape[1]
    weights = np.floor(c * unit).astype(np.int64)
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
            f"a workload needs a column of at most {MOST_VALUES} values, this one has {size}; put it into bins (--bins)",
            field="workload",
        )
    if gram.shape != (size, size) or size < 2 or not np.isfinite(gram).all():
        raise SpecError("a workload needs finite coefficients over at least two values", field="workload")
