"""groups: every true value is published, inside a group of l or more records whose values all differ.

Rows name their group; sensitive.parquet lists the values of each. Groups are uniformly random among all groupings with
distinct values, and answers are debiased by the release's own channel: docs/explanation/anatomy.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import VerificationError
from ..model.private import Batch, Profile, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Floats, Integers, Likelihood, Observed, Published
from .contract import Law
from .expected import Foresight
from .functionals import Cells, CodedUnit, Functionals
from .group_channel import (
    AssignmentFunctionals,
    Channel,
    GroupedValues,
    GroupFunctionals,
    checked,
    estimate,
    grouped_values,
    groups_of,
    kinds,
    released_groups,
    variances,
)
from .published import one_unit, silent


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctGroups(Law):
    """How many groups there are, and how many values each holds at least."""

    name = "groups"
    formula = "M w = h over the groups' own channel; Var = sum over values u of x(F-x)/(F-1) times the variance of w"
    withheld = True
    plan_draws = True
    estimators = ("plain",)
    part = "group_id"

    l: int
    groups: int
    suppressed: int = 0  # records of frequent values

    def __post_init__(self) -> None:
        if self.l < 2:
            raise ValueError("l is below 2")
        if self.suppressed < 0:
            raise ValueError("a negative number of rows was left out")

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """The sensitive columns go, the number of the group comes."""
        (label,) = batch.labels
        stay = label >= 0 if self.suppressed else None
        return Released(codes=(None,), extra={"group_id": label.astype(np.int32, copy=False)}, stay=stay)

    def _channel(self, evidence: Evidence) -> Channel:
        """The release's own channel, worked out once."""
        if "channel" not in evidence.memo:
            evidence.memo["channel"] = Channel(released_groups(evidence, self.l))
        found = evidence.memo["channel"]
        assert isinstance(found, Channel)
        return found

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Debiased by the release's own channel; certain bounds beside it."""
        return estimate(self._channel(evidence), observed, asked)

    def functionals(self, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
        """By the random assignment of records to the groups that hold their value."""
        return GroupFunctionals(cells, grouped_values(evidence, self.l))

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """The values of every group."""
        counts = np.zeros((self.groups, len(evidence.domains[0])))
        np.add.at(counts, (np.asarray(evidence.side["group_id"]), np.asarray(evidence.side["unit0"])), 1)
        return silent(counts, exact=True)

    def check(self, published: Published) -> None:
        """Every group holds at least l values, each once, and as many values as rows; there are rows / l groups."""
        one_unit(published)
        if self.groups != published.rows // self.l:  # before anything is laid out by their number
            raise VerificationError(
                f"{published.rows} rows make {published.rows // self.l} groups of {self.l}, not these"
            )
        values = self._sizes(published)
        numbers, rows = published.group_sizes()
        members = np.zeros(self.groups, dtype=np.int64)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < self.groups:
            raise VerificationError("a row names a group that release.json does not count")
        members[numbers] = rows
        if not np.array_equal(members, values):
            raise VerificationError("a group has another number of rows than of values")

    def _sizes(self, published: Published) -> Integers:
        """How many values each group holds; VerificationError where they are too few, not in order, or twice there."""
        side, domain = published.evidence.side, published.evidence.domains[0]
        if set(side) != {"group_id", "unit0"}:
            raise VerificationError("sensitive.parquet holds other columns than the group and the sensitive ones")
        group, code = side["group_id"], side["unit0"]
        if len(group) and not 0 <= int(group.min()) <= int(group.max()) < self.groups:
            raise VerificationError("sensitive.parquet names a group that release.json does not count")
        values = np.bincount(group, minlength=self.groups)
        if (values < self.l).any():
            raise VerificationError(f"{int((values < self.l).sum())} groups hold fewer than {self.l} values")
        step = int(np.diff(group.astype(np.int64) * len(domain) + code).min(initial=1))  # from one pair to the next
        if step < 0:
            raise VerificationError("sensitive.parquet is not in the order of groups and values, which tells nothing")
        if step == 0:  # in this order equal ones are neighbours
            raise VerificationError("a group holds a value twice")
        held = np.bincount(code, minlength=len(domain)) > 0
        if not held.all() and not (self.suppressed or domain.declared):
            raise VerificationError("the domain was taken from the data, and lists a value that no group has")
        return values

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """By the channel of the planned groups."""
        m = len(profile.domains[0])
        planned = groups_of(work.side["group_id"].astype(np.int64), work.side["unit0"], m)
        made = Channel(planned)
        kept = np.divide(made.true_counts, np.maximum(profile.true_counts(), 1))  # below 1 where suppressed

        def answer(observed: Observed, asked: Asked) -> Estimated:
            plain = asked.options.get("estimator") == "plain"
            h = np.stack([H.toarray() for H in asked.coefficients])
            w = h if plain else np.stack([made.weights(x)[0] for x in h])
            pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
            known: dict[tuple[bytes, int], Floats] = {}

            def sums(patterns: NDArray[np.bool_], column: int) -> Floats:
                name = (patterns.tobytes(), int(column))
                if name not in known:
                    at = np.flatnonzero(patterns[pattern])
                    weight, cell = observed.moments[at, column], key[at] * m + observed.value[at]
                    flat = np.bincount(cell, weights=weight, minlength=observed.keys * m)
                    known[name] = np.asarray(flat.reshape(observed.keys, m) * kept, dtype=np.float64)
                return known[name]

            value, alike = np.zeros((observed.keys, asked.functionals)), kinds(h)
            for f, found in enumerate(alike):
                for b, where in found:
                    (mean,) = made.mean(w[b, f : f + 1])  # of W over the groups that hold a value
                    value[:, f] += sums(where, int(asked.products[0, asked.measure[f]])) @ mean
            variance, covariance = variances(made, sums, asked, w, alike, observed.keys)
            half = asked.z * np.sqrt(variance)
            return Estimated(value=value, variance=variance, low=value - half, high=value + half, covariance=covariance)

        def sums_of_rows(cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
            return AssignmentFunctionals(cells, checked(GroupedValues(planned)), kept)

        return Foresight(lump=False, answer=answer, functionals=sums_of_rows)
