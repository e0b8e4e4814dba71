"""What a method adds up stratum by stratum, and the answers it makes of that: the same for values and for sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...model.public import Asked, Estimated, Floats, Observed
from ...stats.intervals import Line, tail_interval
from ...stats.joint_codes import sum_by_group


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
