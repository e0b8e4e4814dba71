"""Variance and third cumulant of a decoy release's count of one value, as functions of the true count.

The reader rebuilds the channel from the published histogram, which is itself noisy: a count inside a condition P errs
with the published rows in P *and* with the total of the value. Both are in the formulas below, which need seven numbers
for each (condition, value) and no table of values by values. Derivation: docs/explanation/intervals.md section 5.

With e = 1 / gamma the chance that a record shows its own value:

    y        rows in P that show the value           f'   rows of the release that show it
    x^       the estimate of its records in P        n    rows in P
    squares  sum over the rows in P of w^2           N    rows of the release
    b        the weight of a row that shows it
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...stats.intervals import binomial_total_interval, tail_interval

Floats = NDArray[np.float64]

FLOOR = 0.25  # of the variance that the rows showing the value have by themselves
SUM_FLOOR = 0.5  # of the variance that a sum has from its value's total alone


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RareCells:
    """The seven numbers of every (condition, value), in arrays of one shape, and what the channel says of others."""

    shown: Floats  # y
    estimate: Floats  # x^
    squares: Floats  # sum of w^2 over the rows in P
    weight: Floats  # b
    published: Floats  # f'; 0 for a value that was never published
    rows: Floats  # n
    all_rows: float  # N
    other: Floats  # variance that a record without the value adds, on average over the release
    size: int  # gamma
    told: Floats | float = 1.0  # the share of v(x) that all totals together leave, where P is nearly everything
    slope: Floats = field(init=False)  # j, by how much the estimate falls when one more row anywhere shows the value

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", self.slope_at(self.shown, self.estimate))

    @property
    def keep(self) -> float:
        """e, the chance that a record shows its own value."""
        return 1.0 / self.size

    def slope_at(self, shown: Floats, estimate: Floats) -> Floats:
        """j = b (y - x^ e) / f' + x^ (1 - b e) / (N - f'): the derivative of the weights by f', applied to P."""
        e, b, f = self.keep, self.weight, self.published
        first, second = b * (shown - estimate * e), estimate * (1.0 - b * e)
        return _over(first, f) + _over(second, self.all_rows - f)

    @property
    def totals(self) -> tuple[Floats, Floats]:
        """(Sss, Tss): variance of f' as the release's rows would have it, and as the slots' draws have it."""
        e, f = self.keep, self.published
        return f * (1.0 - e**2) - (1.0 - e) ** 2 * f**2 / self.all_rows, f * (1.0 - e)

    def rebuilt(self, shown: Floats, estimate: Floats, j: Floats) -> Floats:
        """What a channel rebuilt from f' adds to the variance: - 2 j c + j^2 Sss - a^2 (Sss - Tss), c = b y - x e."""
        rows, draws = self.totals
        c = self.weight * shown - estimate * self.keep
        a = _over(c - j * rows, rows)
        return np.asarray(-2.0 * j * c + j**2 * rows - a**2 * (rows - draws))

    def expected(self, x: Floats) -> tuple[Floats, Floats]:
        """(p, r): rows inside and outside P that show the value, expected at a true count x inside."""
        inside = np.maximum(self.shown + (x - self.estimate) * self.keep, x * self.keep)
        return inside, np.maximum(np.maximum(self.published, x) - inside, 0.0)

    def variance(self, x: Floats) -> Floats:
        """v(x), at least a quarter of what the rows that show the value have by themselves."""
        e, b, j = self.keep, self.weight, self.slope
        inside, outside = self.expected(x)
        own = (1.0 - b * e) ** 2 / (1.0 - e)
        # the rows in P, as if the channel were known: sum of w^2 less x, with the unseen part of P moved to x
        plain = np.maximum(self.squares - b**2 * self.shown, 0.0) + b**2 * inside - x
        plain = plain + (x - self.estimate) * (own - self.other)
        found = plain + self.rebuilt(inside, x, j)
        return self.told * np.maximum(found, FLOOR * (1.0 - e) * ((b - j) ** 2 * inside + j**2 * outside))

    def third(self, x: Floats) -> Floats:
        """k(x): a row that shows the value moves the estimate by b - j inside P and by -j outside."""
        e, b, j = self.keep, self.weight, self.slope
        inside, outside = self.expected(x)
        gain = e * (1.0 - e) * (1.0 - 2.0 * e) - e
        elsewhere = np.maximum(np.maximum(self.published, x) - x, 0.0)
        return np.asarray(self.told**1.5 * ((b - j) ** 3 * (inside + x * gain) - j**3 * (outside + elsewhere * gain)))

    def with_variance(self, found: Floats) -> RareCells:
        """The same cells with `found` for the variance at the estimate where that is less, NaN: as it is.

        No less than FLOOR of what their total varies by; the skewness stays, as far as v is from it.
        """
        here = self.variance(np.clip(self.estimate, 0.0, self.rows))
        least = FLOOR * self.totals[1]
        told = _over(np.maximum(np.nan_to_num(found, nan=np.inf), least), here)
        return replace(self, told=np.where(here > 0, np.minimum(told, 1.0), 1.0))

    def sum_variance(
        self, estimate: Floats, own: Floats, squares: Floats, counted: Floats, explained: Floats, by_totals: Floats
    ) -> Floats:
        """Variance of a sum of g: `squares` of g over the rows in P, `counted` its estimate over those that count.

        other G2 + (own - other) E2 with E2 cut to what is possible, less what the totals explain of it, plus what their
        own noise adds (`decoy_covariance.py`); at least half of what the value's total alone does to `estimate`.
        """
        plain = self.other * squares + (own - self.other) * np.clip(counted, 0.0, squares)
        found = np.maximum(plain - explained, 0.0) + by_totals
        return np.maximum(found, SUM_FLOOR * self.totals[1] * _over(estimate, self.published) ** 2)

    def most(self, alpha: float) -> Floats:
        """No more records than rows in P, nor than the exact upper end of the value's total."""
        return np.minimum(self.rows, binomial_total_interval(self.published, self.size, alpha)[1])


def _over(top: Floats, bottom: Floats) -> Floats:
    """top / bottom, 0 where the bottom is."""
    top, bottom = np.broadcast_arrays(top, bottom)
    return np.asarray(np.divide(top, bottom, out=np.zeros_like(top, dtype=np.float64), where=bottom > 0))


def rare_value_interval(cells: RareCells, alpha: float, *, full: bool = False) -> tuple[Floats, Floats]:
    """Both ends for the true count of every cell; `full` tails for intervals that must hold together."""
    unit = np.abs(cells.weight) if full else np.zeros_like(cells.weight)
    return tail_interval(cells.estimate, cells.variance, cells.third, alpha, 0.0, cells.most(alpha), unit)
