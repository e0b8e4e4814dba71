"""channel: every record passes the channel that the release states, Pr(shown | true), whatever it is.

The law of methods that have no other: if C is the table of chances and a question adds up h(x) over people, a row that
shows y counts with the weight w = C^-1 h, because its mean under every true x is h(x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..errors import ReleaseError, SpecError, VerificationError
from ..model.private import Batch, Profile, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Floats, Likelihood, Observed, Published
from .contract import Law
from .expected import Foresight, entries, pushed, tensor
from .functionals import Cells, CodedUnit, Functionals, IndependentRows, WeightTable, inverse_of
from .published import check_floor, one_unit, published_counts, published_table, silent

MOST_VALUES = 400  # release.json holds the square of it
NEAR = 1e-9  # to which the chances of a value add up to 1
LEAST_CONDITION = 1e-10  # of the channel: below, values are hardly told apart and weights are rounding errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Law):
    """Row x of `chances` holds Pr(y | x) for every published value y of the same domain."""

    name = "channel"
    formula = "w = C^-1 h; Var = sum w^2 - C^-1 h^2; z sqrt(Var + z^2 max|w|^2 / 4)"
    independent_rows = True

    chances: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.chances)
        if not 2 <= size <= MOST_VALUES or any(len(row) != size for row in self.chances):
            raise SpecError(f"a channel has a row and a column for each of 2 to {MOST_VALUES} values", field="chances")
        C = np.array(self.chances)
        if not (np.isfinite(C).all() and (C >= 0).all() and (np.abs(C.sum(axis=1) - 1) <= NEAR).all()):
            raise SpecError("the chances of every value must lie between 0 and 1 and add up to 1", field="chances")
        if 1 / np.linalg.cond(C) < LEAST_CONDITION:
            raise SpecError("the channel does not tell all values apart; nothing could be counted", field="chances")

    @classmethod
    def of(cls, table: Floats) -> Channel:
        """The law of a table of chances, a row for every true value."""
        return cls(chances=tuple(tuple(row) for row in table.tolist()))

    @property
    def table(self) -> Floats:
        """The chances as an array."""
        return _table(self)

    def _fitting(self, domains: Sequence[Domain]) -> Floats:
        """The table; ReleaseError where the release states another domain than it lists."""
        if len(domains) != 1 or len(domains[0]) != len(self.chances):
            raise ReleaseError("release.json states a channel that does not fit its columns")
        return self.table

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Every row draws from the chances of its value."""
        (codes,) = batch.codes
        upto, drawn = np.cumsum(self.table, axis=1), rng.random(batch.rows)
        shown = np.zeros(batch.rows, dtype=np.int32)
        for x in np.unique(codes):
            mine = np.flatnonzero(codes == x)
            shown[mine] = np.searchsorted(upto[x], drawn[mine], side="right")
        return Released(codes=(np.minimum(shown, len(upto) - 1),))  # the last sum may be a little below 1

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Weights whose mean under every true value x is h(x), summed over what was published."""
        channel, at = self._fitting(evidence.domains), (observed.keys, asked.functionals)
        value, variance, spread, largest = (np.zeros(at) for _ in range(4))
        covariance = np.zeros((observed.keys, len(asked.pairs)))
        rows = np.zeros(observed.keys)
        key, pattern = observed.key[observed.stratum], observed.pattern[observed.stratum]
        np.add.at(rows, key, observed.moments[:, 0])
        first, second = asked.pairs.T
        for b in np.unique(pattern):
            seen = np.flatnonzero(pattern == b)
            h = asked.coefficients[b].toarray().T  # (values, functionals)
            w = np.linalg.solve(channel, h)
            noise = w**2 - np.linalg.solve(channel, h**2)  # its mean under x is Var(w(Y) | x)
            both = w[:, first] * w[:, second] - np.linalg.solve(channel, h[:, first] * h[:, second])
            published, moments = observed.value[seen], observed.moments[seen]
            squares = moments[:, asked.products[asked.measure, asked.measure]]
            np.add.at(value, key[seen], moments[:, asked.products[0, asked.measure]] * w[published])
            np.add.at(variance, key[seen], squares * noise[published])
            np.add.at(spread, key[seen], squares)
            products = asked.products[asked.measure[first], asked.measure[second]]
            np.add.at(covariance, key[seen], moments[:, products] * both[published])
            largest = np.maximum(largest, np.where(np.abs(noise).max(axis=0) > NEAR, np.abs(w).max(axis=0), 0.0))
        variance = np.maximum(variance, 0.0)
        mean_square = np.divide(spread, rows[:, None], out=np.zeros(at), where=rows[:, None] > 0)
        half = asked.z * np.sqrt(variance + asked.z**2 * largest**2 * mean_square / 4)  # holds for small counts too
        return Estimated(value=value, variance=variance, low=value - half, high=value + half, covariance=covariance)

    def functionals(self, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
        """The same weights: rows are independent, and values come one by one."""
        return IndependentRows(cells, WeightTable(matrix=inverse_of(self.table)))

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """Estimated counts, and the channel by shown value."""
        channel = self._fitting(evidence.domains)
        counts = published_table(evidence, unit, 1) @ np.linalg.inv(channel)
        return Likelihood(counts=np.maximum(counts, 0.0), chance=lambda _, shown: channel[:, shown].T)

    def check(self, published: Published) -> None:
        """The channel runs over the published domain of the sensitive column, and the rows may have come out of it."""
        one_unit(published)
        if len(self.chances) != len(published.evidence.domains[0]):
            raise VerificationError("the channel has another number of values than the published domain")
        # whatever the true values are, no value shows more rarely than for those that are farthest from it
        check_floor(published_counts(published), self.table.min(axis=0), "the sensitive column")

    def channel(self, work: Work, profile: Profile) -> Floats:
        """The same for every record."""
        return self.table

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts: the true ones through the channel."""

        def push(observed: Observed, _: Asked) -> Observed:
            return entries(observed, tensor(observed, len(self.chances)) @ self.table)

        return pushed(self, push, None, profile, domains, lump=False)


@lru_cache(maxsize=4)  # every batch and every question asks for it
def _table(law: Channel) -> Floats:
    return np.array(law.chances)


# distribution-draw: every record shows a value drawn from the column's overall distribution, whatever its own is.


CAVEAT = "baseline: plain counts of values drawn without regard to the record; any link with other columns is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallDraw(Law):
    """It has no parameters: the distribution is private until rows are drawn from it."""

    name = "distribution-draw"
    lumpable = True

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Each record publishes the value of a record chosen uniformly from the whole table."""
        chosen = rng.integers(0, int(work.secret[-1]), size=batch.rows)
        return Released(codes=(np.searchsorted(work.secret, chosen, side="right").astype(np.int32),))

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Plain counts: no error is known, because the bias is the link between the columns."""
        value = np.zeros((observed.keys, asked.functionals))
        pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
        for b, H in enumerate(asked.coefficients):
            at = np.flatnonzero(pattern == b)
            first = observed.moments[at][:, asked.products[0, asked.measure]]
            np.add.at(value, key[at], first * H[:, observed.value[at]].toarray().T)
        nothing = np.full(value.shape, np.nan)
        return Estimated(
            value=value,
            variance=nothing,
            low=np.full(value.shape, -np.inf),
            high=np.full(value.shape, np.inf),
            covariance=np.full((observed.keys, len(asked.pairs)), np.nan),
            caveats=(CAVEAT,),
        )

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """What a record shows does not depend on its value."""
        return silent(published_table(evidence, unit, 1))

    def check(self, published: Published) -> None:
        """The sensitive column must be the one that was drawn."""
        one_unit(published)

    def channel(self, work: Work, profile: Profile) -> Floats:
        """Every row is the overall distribution."""
        true_counts = profile.true_counts()
        return np.tile(true_counts / profile.rows, (len(true_counts), 1))

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """The mean is that of independence, and from the plan its spread is known too."""
        share = profile.true_counts() / profile.rows

        def answer(observed: Observed, asked: Asked) -> Estimated:
            value, variance = np.zeros((observed.keys, asked.functionals)), np.zeros((observed.keys, asked.functionals))
            pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
            shares = np.bincount(asked.classes[0], weights=share).astype(np.float64)
            for b, H in enumerate(asked.coefficients):
                at = np.flatnonzero(pattern == b)
                mean, square = H @ shares, H.power(2) @ shares
                first = observed.moments[at][:, asked.products[0, asked.measure]]
                second = observed.moments[at][:, asked.products[asked.measure, asked.measure]]
                np.add.at(value, key[at], first * mean)
                np.add.at(variance, key[at], second * (square - mean**2))
            nothing = np.zeros((observed.keys, len(asked.pairs)))
            half = asked.z * np.sqrt(variance)
            return Estimated(value=value, variance=variance, low=value - half, high=value + half, covariance=nothing)

        return Foresight(lump=True, answer=answer)
