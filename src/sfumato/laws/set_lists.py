"""set-lists: a set of values from a published list in place of the value; every sub-table has a list and a channel.

docs/explanation/set-channels.md; weights and variances are those of section 5, sub-table by sub-table, added up.
Sub-tables of one size and gamma may share a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..errors import ReleaseError, SpecError, VerificationError
from ..model.private import Batch, Profile, Released, Work
from ..model.public import (
    Asked,
    Codes,
    Domain,
    Estimated,
    Evidence,
    Floats,
    Integers,
    Likelihood,
    Listed,
    Observed,
    Published,
    SetWeights,
)
from .expected import Foresight, entries, pushed, tensor, together
from .functionals import Cells, CodedUnit, Functionals, IndependentRows, SetListWeights
from .published import check_drawn_sets, published_counts
from .set_channel import PlannedList, SetAnswers, SetChannel, SetTables, count_cumulants
from .sub_tables import PART, RowSums, SubTableLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLists(SubTableLaw):
    """Sub-table i publishes sets from `lists[of[i]]`, which name positions among its own values."""

    name = "set-lists"
    formula = (
        "w(Z) = Q_Z M^-1 h / d_Z, in sets.parquet for single values; Var = sum of w_v(Z), v = Var(w_h | x), "
        "at least n min v; counts: inverted test"
    )

    lists: tuple[PlannedList, ...]
    of: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        SubTableLaw.__post_init__(self)
        if len(self.of) != len(self.gammas) or not all(0 <= k < len(self.lists) for k in self.of):
            raise SpecError("every sub-table needs one of the lists", field="lists")
        _ = self.tables  # refuses a list that is none

    @property
    def tables(self) -> SetTables:
        """The channels of all sub-tables."""
        return _tables(self)

    def listed(self, domains: tuple[Domain, ...]) -> tuple[Listed | None, ...]:
        """The sets of all sub-tables, numbered through."""
        last = self.values - 1 if self.domains is None else max(d[-1] for d in self.domains)
        if len(domains) != 1 or len(domains[0]) != self.values or last >= self.values:
            raise ReleaseError("release.json states a list of sets that does not fit its columns")
        return (self.tables.listed(domains[0].columns),)

    def weights(self) -> SetWeights:
        """The weights of single values."""
        return self.tables.weights()

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """A set for every row, from the list of its sub-table; the sub-table is published."""
        (codes,) = batch.codes
        if self.domains is None:
            return Released(codes=(self.tables.draw(codes, None, rng),))
        (part,) = batch.labels
        return Released(codes=(self.tables.draw(codes, part, rng),), extra={PART: part})

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """By the weights of the lists."""
        return estimate(self.tables, evidence, observed, asked)

    def functionals(self, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
        """Rows are independent, given their sub-table where there are several; a state is a published set."""
        (unit,), tables = units, self.tables
        blocks = []
        for i, values in enumerate(tables.values):
            held, place = np.unique(unit.classes[values], return_inverse=True)
            inside = np.zeros((len(values), len(held)))
            inside[np.arange(len(values)), place] = 1.0
            blocks.append((held.astype(np.intp), tables.answers(i).unit_weights @ inside))
        return IndependentRows(cells, SetListWeights(blocks=tuple(blocks), values=unit.size))

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """n_ix = sum of the weights of value x over the rows of sub-table i, cut at 0."""
        tables, values = self.tables, len(evidence.domains[0])
        _, codes, count = evidence.totals((0,))
        seen = np.bincount(codes[:, 0], weights=count, minlength=int(tables.start[-1]))
        counts, shows = np.zeros((len(tables), values)), np.zeros((len(seen), values))
        for i, held in enumerate(tables.values):
            mine = slice(int(tables.start[i]), int(tables.start[i + 1]))
            counts[i, held] = np.maximum(seen[mine] @ tables.answers(i).unit_weights, 0.0)
            shows[mine, held] = tables.channels[i].matrix()
        return Likelihood(counts=counts, chance=lambda _, shown: shows[shown])

    def check_drawn(self, published: Published) -> None:
        """Every sub-table shows its own sets, none too rarely for its channel, and can be counted from."""
        tables = self.tables
        part, codes, _ = published.evidence.totals((0,))
        if not np.array_equal(tables.part_of(codes[:, 0]), part):
            raise VerificationError("a row publishes a set that its sub-table does not list")
        counts = published_counts(published, size=int(tables.start[-1]))
        for i, (channel, gamma) in enumerate(zip(tables.channels, self.gammas, strict=True)):
            try:
                tables.answers(i)
            except SpecError as error:
                raise VerificationError(f"{self.where(i)}: the list of sets cannot be counted from: {error}") from None
            mine = counts[tables.start[i] : tables.start[i + 1]]
            check_drawn_sets(mine, channel.members, channel.weights, gamma, self.where(i), tests=len(self.gammas))

    def channel(self, work: Work, profile: Profile) -> Floats:
        """(values, sets): each sub-table's channel, weighted by the share of a value's records that goes there."""
        share, tables = self.shares(work, profile), self.tables
        made = np.zeros((self.values, int(tables.start[-1])))
        for i, values in enumerate(tables.values):
            own = tables.channels[i].matrix().T
            made[values, tables.start[i] : tables.start[i + 1]] = share[i, values][:, None] * own
        return made

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts of every set of every sub-table."""
        tables, share, true_counts = self.tables, self.shares(work, profile), profile.true_counts().astype(float)

        def of_table(seen: Floats, i: int) -> Floats:
            values = tables.values[i]
            return np.asarray((seen[..., values] * share[i, values]) @ tables.channels[i].matrix().T)

        def push(observed: Observed, _: Asked) -> Observed:
            seen = tensor(observed, self.values)
            moved = [entries(observed, of_table(seen, i), i) for i in range(len(tables))]
            return together([replace(o, value=o.value + tables.start[i]) for i, o in enumerate(moved)])

        def totals(_: tuple[int, ...]) -> tuple[Integers, Codes, Floats]:
            count = np.concatenate([of_table(true_counts, i) for i in range(len(tables))])
            ids = np.arange(len(count))
            return tables.part_of(ids).astype(np.int64), ids[:, None].astype(np.int32), count

        return pushed(self, push, totals, profile, domains, lump=False)


@lru_cache(maxsize=4)  # every batch and every question asks for them
def _tables(law: SetLists) -> SetTables:
    made: dict[tuple[int, int, Fraction], SetChannel] = {}
    channels, values = [], [law.of_table(i) for i in range(len(law.gammas))]
    for k, held, gamma in zip(law.of, values, law.gammas, strict=True):
        key = (k, len(held), gamma)
        if key not in made:
            made[key] = law.lists[k].channel(len(held), gamma)
        channels.append(made[key])
    return SetTables(values, channels)


# --- set sums ---------------------------------------------------------------------------------------------------------
# Answers added up over strata and sub-tables: from moments per (stratum, set) to values, variances, covariances.
#
# A question needs, per stratum and set id, the number of rows, the sum of g and the sum of g g' of its measures g; all
# else is linear algebra on the published list. Sub-tables have a list and a channel each; their answers add up.


Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StratumSums:
    """Per stratum and functional, (T, F); covariances per asked pair, (T, P)."""

    value: Floats
    variance: Floats  # unbiased, but never below what the rows must at least have
    covariance: Floats  # unbiased


def add_up(
    answers: SetAnswers,
    moments: Sequence[csr_array],
    h: Floats,
    measure: Positions,
    products: Positions,
    pairs: Positions,
) -> StratumSums:
    """Answers of functionals h (F, m) of the values of one sub-table, from its rows.

    `moments` are sums over rows by stratum and set, (T, k) each; `products[a, b]` is the position of the sum of g_a g_b
    among them, the first counts rows. Functional f weighs rows by measure `measure[f]` (0: the constant 1); `pairs`
    (P, 2) are the functionals whose covariance is wanted.
    """

    def sums(weights: Floats, column: Positions) -> Floats:
        """Sum over sets of moment x weight, each functional with the moment it uses."""
        found = np.zeros((moments[0].shape[0], len(weights)))
        for j in np.unique(column):
            f = np.flatnonzero(column == j)
            found[:, f] = moments[j] @ weights[f].T
        return found

    first, second = pairs.T
    squares = products[measure, measure]
    spread, crossed = answers.variance(h), answers.covariance(h[first], h[second])
    flat = np.ptp(h, axis=1) == 0  # M pi = 1 gives such an h weight h exactly; the rest is rounding
    spread[flat], crossed[flat[first] | flat[second]] = 0.0, 0.0
    # the least that the rows must have: as if each had the true value that varies least
    least = sums(np.repeat(spread.min(axis=1), len(answers.matrix)).reshape(len(h), -1), squares)
    return StratumSums(
        value=sums(answers.weights(h), products[0, measure]),
        variance=np.maximum(sums(answers.weights(spread), squares), np.maximum(least, 0.0)),
        covariance=sums(answers.weights(crossed), products[measure[first], measure[second]]),
    )


# --- set estimate -----------------------------------------------------------------------------------------------------


def estimate(tables: SetTables, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
    """Unbiased estimates and variances, counts with inverted tests."""
    T, F, P = observed.strata, asked.functionals, len(asked.pairs)
    sums = RowSums.zeros(T, F, P)
    part = tables.part_of(observed.value)
    pattern = observed.pattern[observed.stratum]
    # the interval of a count asks in which sub-tables a value's records lie
    whole = _whole(tables, evidence, asked) if len(tables) > 1 else None
    order = np.lexsort((part, pattern))
    group = pattern[order] * len(tables) + part[order]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]])) if len(group) else np.zeros(0, np.intp)
    columns = [H.T.tocsr() for H in asked.coefficients]
    for here in np.split(order, starts[1:]):
        if len(here):
            _add_part(sums, tables, int(part[here[0]]), here, columns[pattern[here[0]]], observed, asked, whole)
    return sums.collected(observed, asked)


def _whole(tables: SetTables, evidence: Evidence, asked: Asked) -> Floats:
    """Rows of the whole release that show each set."""
    _, codes, count = evidence.totals(asked.units)
    return np.bincount(codes[:, 0], weights=count, minlength=int(tables.start[-1])).astype(float)


def _add_part(
    sums: RowSums,
    tables: SetTables,
    i: int,
    here: NDArray[np.intp],
    H: csr_array,  # (V, F)
    observed: Observed,
    asked: Asked,
    whole: Floats | None,
) -> None:
    """The observed entries `here`, all of sub-table i and one pattern, added to the sums of their strata."""
    answers, values = tables.answers(i), tables.values[i]
    mine = H[values]
    active = np.unique(mine.indices).astype(np.intp)  # functionals that are 0 all over the sub-table add nothing
    if not len(active):
        return
    h = mine.T[active].toarray()
    strata, row = np.unique(observed.stratum[here], return_inverse=True)
    at, shape = (row, observed.value[here] - tables.start[i]), (len(strata), len(answers.matrix))
    moments = tuple(csr_array((moment, at), shape=shape) for moment in observed.moments[here].T)
    place = np.full(asked.functionals, -1)
    place[active] = np.arange(len(active))
    both = np.flatnonzero((place[asked.pairs] >= 0).all(axis=1))
    found = add_up(answers, moments, h, asked.measure[active], asked.products, place[asked.pairs[both]])
    grid = np.ix_(strata, active)
    sums.value[grid] += found.value
    sums.variance[grid] += found.variance
    sums.covariance[np.ix_(strata, both)] += found.covariance
    _add_cumulants(sums, tables, i, h, strata, active, asked, moments[0].sum(axis=1).astype(np.float64), whole)


def _add_cumulants(
    sums: RowSums,
    tables: SetTables,
    i: int,
    h: Floats,
    strata: NDArray[np.intp],
    active: NDArray[np.intp],
    asked: Asked,
    row_sums: Floats,
    whole: Floats | None,
) -> None:
    """What the tails of counts need of sub-table i; `row_sums` are its rows in each stratum."""
    counting = np.flatnonzero(asked.indicator[active] & (asked.measure[active] == 0))
    if not len(counting):
        return
    answers, rows = tables.answers(i), row_sums.reshape(-1, 1)
    indicator, grid = h[counting], np.ix_(strata, active[counting])
    every = indicator.all(axis=1)  # counts all rows of the sub-table, exactly
    found, weights = count_cumulants(answers, indicator), answers.weights(indicator)
    share = np.where(every, 0.0, 1.0)
    if whole is not None:
        shown = whole[tables.start[i] : tables.start[i + 1]]
        share = np.where(every, 0.0, np.clip(weights @ shown, 1, max(shown.sum(), 1)))
    sums.known[grid] += rows * every
    sums.rows[grid] += rows * ~every
    for into, amount in (
        (sums.v0, rows * np.where(every, 0.0, found.v0)),
        (sums.k0, rows * np.where(every, 0.0, found.k0)),
        (sums.slope, share * (found.v1 - found.v0)),
        (sums.kslope, share * (found.k1 - found.k0)),
        (sums.weight, share),
    ):
        into[grid] += amount
    sums.unit[grid] = np.maximum(sums.unit[grid], np.where(every, 0.0, np.ptp(weights, axis=1)))
