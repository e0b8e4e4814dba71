"""Sub-tables with a channel each: what laws over them share, and the sums their answers are made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from ..errors import VerificationError
from ..model.private import Profile, Work
from ..model.public import Asked, Codes, Domain, Estimated, Floats, Observed, Published
from ..stats.intervals import Line, tail_interval
from ..stats.joint_codes import sum_by_group
from .contract import Law
from .expected import sent
from .published import one_unit, stated_sizes

PART = "sub_table"  # the column that tells a row's sub-table
MOST_VALUES = 1 << 22  # of a domain: release.json lists them, in 8 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class SubTableLaw(Law):
    """A domain, or sub-tables with some of its values each, and the gamma of each channel.

    A record lies in one sub-table, which is published; what it shows depends on nothing but its own value.
    """

    independent_rows = True

    values: int  # of the domain
    gammas: tuple[Fraction, ...]  # of every sub-table, rounded down; what runs
    domains: tuple[tuple[int, ...], ...] | None = None  # ascending codes of each; None: one table, of all values
    sizes: tuple[int, ...] | None = None  # rows of each, where there are sub-tables

    def __post_init__(self) -> None:
        if not 2 <= self.values <= MOST_VALUES or any(gamma <= 1 for gamma in self.gammas):
            raise ValueError(f"a channel needs 2 to {MOST_VALUES:,} values, and a gamma above 1")
        if (self.domains is None) != (self.sizes is None):
            raise ValueError("sub-tables have domains and sizes")
        if len(self.gammas) != (1 if self.domains is None else len(self.domains)) or not self.gammas:
            raise ValueError("every sub-table needs a gamma")
        if self.domains is None or self.sizes is None:
            return
        if len(self.domains) != len(self.sizes) or any(size < 1 for size in self.sizes):
            raise ValueError("every sub-table needs a size, at least one record")
        if any(not d or d[0] < 0 or any(a >= b for a, b in pairwise(d)) for d in self.domains):
            raise ValueError("the codes of a sub-table's domain must ascend from 0 on")

    @property
    def part(self) -> str | None:
        """The sub-table, where there are several to tell apart."""
        return None if self.domains is None else PART

    def of_table(self, i: int) -> Codes:
        """The codes of the values of sub-table i."""
        return np.arange(self.values, dtype=np.int32) if self.domains is None else np.array(self.domains[i], np.int32)

    def shares(self, work: Work, profile: Profile) -> Floats:
        """(sub-tables, values): share of a value's records that go to a sub-table."""
        if self.domains is None:
            return np.ones((1, self.values))
        return np.asarray(sent(work, profile, 0, len(self.gammas)).toarray().T, dtype=np.float64)

    def rules_out(self, domains: Sequence[Domain]) -> bool:
        """Sub-tables hold the values that occur; a declared value that does not is in none."""
        return self.domains is not None and len({c for held in self.domains for c in held}) < sum(map(len, domains))

    def check(self, published: Published) -> None:
        """Sub-tables have the stated sizes, two values or more, show no others, and show them as their channel does."""
        one_unit(published)
        (domain,) = published.evidence.domains
        if self.values != len(domain):
            raise VerificationError("the channel has another number of values than the published domain")
        if self.domains is not None and self.sizes is not None:
            stated_sizes(published, self.sizes, "sub-table")
            for i, (held, size) in enumerate(zip(self.domains, self.sizes, strict=True)):
                if len(held) < 2:
                    raise VerificationError(f"sub-table {i} has one value: it hides nothing")
                if held[-1] >= self.values:
                    raise VerificationError(f"sub-table {i} lists a value outside the published domain")
                if size < len(held):
                    raise VerificationError(
                        f"sub-table {i} lists more values than it has rows: not all of them occur in it"
                    )
        self.check_drawn(published)
        if self.rules_out([domain]) and not domain.declared:
            raise VerificationError("the domain was taken from the data, and lists a value that no sub-table has")

    @abstractmethod
    def check_drawn(self, published: Published) -> None:
        """Raise VerificationError where what the rows show was not drawn by the channels."""

    def where(self, i: int) -> str:
        """A sub-table as messages name it."""
        return "the sensitive column" if self.domains is None else f"sub-table {i}"


@dataclass(slots=True)
class RowSums:
    """Sums over sub-tables, (T, F); covariance (T, P)."""

    value: Floats
    variance: Floats
    covariance: Floats
    known: Floats  # rows that count whatever their true value is: part of `value`, without error
    rows: Floats  # the others
    v0: Floats  # variance and third cumulant of the value if no row has it ...
    k0: Floats
    slope: Floats  # ... and what a row that has it adds, times the weight
    kslope: Floats
    weight: Floats  # about how many records of the whole sub-tables count: where those of the value lie
    unit: Floats  # the largest step that one row can make

    @classmethod
    def zeros(cls, strata: int, functionals: int, pairs: int) -> RowSums:
        """Nothing added up yet."""
        return cls(*(np.zeros((strata, pairs if name == "covariance" else functionals)) for name in cls.__slots__))

    def collected(self, observed: Observed, asked: Asked) -> Estimated:
        """Strata of one output row added up; inverted tests for counts, normal ends for self."""

        def add(x: Floats) -> Floats:
            return sum_by_group(x, observed.key, observed.keys)

        # The slope of an output row whose strata have different ones is their average by rows.
        rows = add(self.rows)

        def average(x: Floats) -> Floats:
            of_stratum = np.divide(x, self.weight, out=np.zeros_like(x), where=self.weight > 0)
            return np.divide(add(of_stratum * self.rows), rows, out=np.zeros_like(rows), where=rows > 0)

        value, variance, known = add(self.value), np.maximum(add(self.variance), 0.0), add(self.known)
        half = asked.z * np.sqrt(variance)
        low, high = value - half, value + half
        f = np.flatnonzero((asked.measure == 0) & asked.indicator)
        inverted = np.zeros(value.shape, dtype=bool)
        inverted[:, f] = True
        unit = np.zeros_like(value)
        np.maximum.at(unit, observed.key, self.unit)
        v = Line(constant=add(self.v0)[:, f], slope=average(self.slope)[:, f])
        k = Line(constant=add(self.k0)[:, f], slope=average(self.kslope)[:, f])
        hit = unit[:, f] if asked.full else 0.0
        ends = tail_interval((value - known)[:, f], v, k, asked.alpha, 0.0, rows[:, f], hit)
        low[:, f], high[:, f] = (known[:, f] + end for end in ends)
        return Estimated(
            value=value, variance=variance, low=low, high=high, covariance=add(self.covariance), inverted=inverted
        )
