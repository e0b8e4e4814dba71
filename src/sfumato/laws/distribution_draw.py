"""distribution-draw: every record shows a value drawn from the column's overall distribution, whatever its own is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model.private import Batch, Profile, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Floats, Likelihood, Observed, Published
from .contract import Law
from .expected import Foresight
from .published import one_unit, published_table, silent

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
