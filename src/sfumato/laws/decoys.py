"""decoys: every record shows a value drawn from those of its group, its own among them; groups are not published.

Random groups of gamma records with distinct values. The channel is rebuilt from the published totals, which are kept in
the mean: docs/explanation/splu.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    Observed,
    Published,
    value_label,
)
from ..stats.joint_codes import sum_by_group
from .contract import Law
from .decoy_channel import DecoyChannel, rebuild_channel
from .decoy_estimate import ESTIMATORS, check_units, decoy_functionals, estimate, paper_estimate
from .expected import Foresight, entries, pushed, sent, tensor
from .functionals import Cells, CodedUnit, Functionals
from .published import check_ceiling, check_roles, published_counts, published_table

RULES = {"random": "random-margins", "largest": "largest-buckets"}  # how groups are made
RULE_VERSION = 1
MOST_GAMMA = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoys(Law):
    """The size of the groups of every sensitive column, and the rule by which they are made."""

    name = "decoys"
    plan_draws = True
    estimators = tuple(ESTIMATORS)

    gamma: dict[str, int]
    grouping: str
    grouping_version: int

    def __post_init__(self) -> None:
        if not self.gamma or not all(2 <= size <= MOST_GAMMA for size in self.gamma.values()):
            raise SpecError(f"gamma must be a whole number from 2 to {MOST_GAMMA}", field="gamma")
        if self.grouping not in RULES.values() or self.grouping_version != RULE_VERSION:
            raise SpecError("the grouping rule of the release is not known to this version of sfumato")

    @property
    def sizes(self) -> tuple[int, ...]:
        """gamma of every unit."""
        return tuple(self.gamma.values())

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Every record takes the published value it was dealt."""
        return Released(codes=tuple(label.astype(np.int32) for label in batch.labels))

    def released_domains(self, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
        """Values leave as values of the same domain."""
        if tuple(self.gamma) != tuple(domain.columns[0] for domain in domains):
            raise ReleaseError("release.json states gamma for other columns than those that were randomised")
        return domains

    def channels(self, evidence: Evidence, units: tuple[int, ...]) -> tuple[DecoyChannel, ...]:
        """The channels of the columns a question involves, rebuilt once per open release."""
        for u in units:
            if f"channel {u}" not in evidence.memo:
                _, codes, count = evidence.totals((u,))
                published = np.bincount(codes[:, 0], weights=count, minlength=len(evidence.domains[u])).astype(np.int64)
                evidence.memo[f"channel {u}"] = self._rebuilt(u, published)
        return tuple(evidence.memo[f"channel {u}"] for u in units)

    def _rebuilt(self, unit: int, counts: Integers) -> DecoyChannel:
        largest = self.grouping == RULES["largest"]
        return rebuild_channel(counts, self.sizes[unit], seed=counts.astype(np.uint32), largest=largest)

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """By the rebuilt channel, calibrated to the totals; `--estimator paper` as the SPLU paper does."""
        channels = self.channels(evidence, asked.units)
        chosen = asked.options.get("estimator")
        if chosen is None:
            said = crowded_caveats(channels, [evidence.domains[u] for u in asked.units])
            return estimate(channels, evidence.rows, observed, asked, said)
        _, codes, count = evidence.totals(asked.units)
        joint = sum_by_group(count.astype(np.float64), tuple(codes.T), asked.shape)
        return paper_estimate(channels, joint[np.ix_(*(c.active for c in channels))], observed, asked, chosen)

    def functionals(self, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
        """By the channel that the published histogram gives back."""
        check_units(units)
        channels = self.channels(evidence, tuple(unit.unit for unit in units))
        said = crowded_caveats(channels, [evidence.domains[unit.unit] for unit in units])
        return decoy_functionals(channels, cells, units, evidence.rows, said)

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """The rebuilt channel; totals are kept."""
        (channel,) = self.channels(evidence, (unit,))
        values = len(evidence.domains[unit])
        M = np.zeros((values, values))
        M[np.ix_(channel.active, channel.active)] = channel.matrix.forward(np.eye(len(channel.active)))
        M = np.maximum(M, 0.0)
        return Likelihood(counts=published_table(evidence, unit, 1), chance=lambda _, shown: M[:, shown].T)

    def check(self, published: Published) -> None:
        """Groups of gamma records with different values fit; a value shows at most as if every group held it.

        A record shows one of the gamma or more different values of its group, each equally likely: a set of k values
        with a chance of at most k / gamma, whatever the groups are.
        """
        check_roles(published, "sensitive")
        domains = published.evidence.domains
        if any(len(domain.columns) != 1 for domain in domains):
            raise VerificationError("every sensitive column must be a unit of its own")
        for u, (size, domain) in enumerate(zip(self.sizes, domains, strict=True)):
            if size > len(domain) or size > published.rows:
                raise VerificationError(
                    f'gamma = {size} is more than the values of "{domain.columns[0]}" or the rows: no group has them'
                )
            where = f'column "{domain.columns[0]}"'
            check_ceiling(published_counts(published, u), 1 / size, where, tests=len(domains))

    def channel(self, work: Work, profile: Profile) -> Floats:
        """The share of records of u that publish s, as the slots of this plan were drawn."""
        return np.asarray(sent(work, profile, 0, len(profile.domains[0])).toarray(), dtype=np.float64)

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """By the channel of the true histogram, which is the mean over all groupings and draws."""
        counts = [profile.true_counts(u, u) for u in range(len(work.deals))]
        channels = [self._rebuilt(u, true) for u, true in enumerate(counts)]

        def push(observed: Observed, asked: Asked) -> Observed:
            seen = tensor(observed, int(np.prod(asked.shape)))
            table = seen.reshape(*seen.shape[:2], *asked.shape)
            for axis, u in enumerate(asked.units, start=2):
                moved = np.moveaxis(table, axis, -1)
                there = moved[..., channels[u].active]
                flat = channels[u].matrix.backward(there.reshape(-1, there.shape[-1]).T).T
                expected = np.zeros_like(moved)
                expected[..., channels[u].active] = flat.reshape(there.shape)
                table = np.moveaxis(expected, -1, axis)
            return entries(observed, table.reshape(seen.shape))

        def totals(units: tuple[int, ...]) -> tuple[Integers, Codes, Integers]:
            (u,) = units
            codes = np.arange(len(counts[u]), dtype=np.int32)[:, None]
            return np.zeros(len(codes), dtype=np.int64), codes, counts[u]

        return pushed(self, push, totals, profile, domains, lump=False)


# --- crowded values ---------------------------------------------------------------------------------------------------
# Values in so many groups that the channel is hardly known: what their answers must say.
#
# A value in every group, f = N / size records, leaves a channel that tells nothing of who has which value. Estimates
# divide by the distance from there, which is known as well as the published total: with the variance f (1 - 1 / size).
# docs/explanation/splu.md, section 7.


LEAST_MARGIN = 3.0  # standard errors of a total between it and every group; below, dividing by the distance is rough
LONGEST = 80  # characters of a value


def margins(channel: DecoyChannel) -> NDArray[np.float64]:
    """How many standard errors of its own every published total lies below one record in every group."""
    f, e = channel.published, 1.0 / channel.size
    return (f.sum() * e - f) / np.sqrt(f * (1.0 - e))


def crowded_caveats(channels: Sequence[DecoyChannel], domains: Sequence[Domain]) -> tuple[str, ...]:
    """A caveat for every value that is nearly in every group; one beyond that is not identifiable, and refused."""
    found = []
    for channel, domain in zip(channels, domains, strict=True):
        margin = margins(channel)
        for at in np.flatnonzero(channel.identifiable & (margin < LEAST_MARGIN)):
            label = repr(value_label(domain.values[channel.active[at]]))[:LONGEST]
            found.append(
                f"{domain.columns[0]} {label} is in nearly every group: its total is {margin[at]:.1f} standard errors "
                f"below 1 in {channel.size} rows, where nothing tells who has which value; intervals may be too narrow"
            )
    return tuple(found)
