"""Quantiles of a column with an interval, by inverting the test of every value (Woodruff).

G(t) = sum of (1[s <= t] - tau) is a sum over the true rows. A value t is too low for the quantile where an estimate of
G(t) as low would be rare if G(t) were 0, with the variance that it would then have; it is high enough where one as high
would be. Estimated distributions are not monotone, so the ends are taken from the outside; the point comes from the
nearest monotone distribution.
docs/explanation/inference.md, section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from ..answering.answer import pandas_frame
from ..answering.subject import Subject
from ..errors import QueryError, SpecError, UnsupportedQuery
from ..laws.functionals import Functionals, Functions, Planes, Target
from ..model.public import Floats, Scalar
from ..reports.text import percent, table
from ..sql.nodes import Aggregate, Query
from ..sql.scalar import quoted
from ..stats.intervals import lower_tail, upper_tail
from .cells import Grid, check_asked, check_groups, is_number, read

STAYS = 0.25  # of the stated variance, however far from 0 the estimate of G is
TOGETHER = 50  # thresholds whose errors are worked out at once, or more where there are thousands


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """A quantile in one group; NaN where the group is estimated to have no rows."""

    group: tuple[Scalar, ...]
    share: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Quantiles of a column, by groups."""

    column: str
    by: tuple[str, ...]
    rows: tuple[Quantile, ...]
    target: Target
    level: float
    caveats: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As a document."""
        rows = [
            dict(zip(self.by, r.group, strict=True))
            | {"share": r.share, self.column: _known(r.value)}
            | {"low": _known(r.low), "high": _known(r.high)}
            for r in self.rows
        ]
        return {"target": self.target, "level": self.level, "rows": rows, "caveats": list(self.caveats)}

    def to_arrow(self) -> Any:
        """As an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.to_dict()["rows"])

    def to_pandas(self) -> Any:
        """As a pandas data frame."""
        return pandas_frame(self.to_arrow())

    def __str__(self) -> str:
        header = (*self.by, "share", self.column, f"{percent(self.level)} interval")
        rows = [
            (
                *("NULL" if v is None else str(v) for v in r.group),
                f"{r.share:g}",
                f"{r.value:g}" if math.isfinite(r.value) else "-",
                f"{r.low:g} .. {r.high:g}" if math.isfinite(r.value) else "-",
            )
            for r in self.rows
        ]
        return "\n".join([table(header, rows), *(f"note: {caveat}" for caveat in self.caveats)])


def quantile(
    subject: Subject,
    column: str,
    shares: float | Sequence[float],
    *,
    by: str | Sequence[str] = (),
    where: str | None = None,
    target: Target = "table",
    level: float = 0.95,
) -> Quantiles:
    """Quantiles of a column of numbers, of its own values as SQL's QUANTILE_DISC has them; null does not count."""
    check_asked(target, level)
    by = (by,) if isinstance(by, str) else tuple(by)
    wanted = [shares] if isinstance(shares, int | float) else list(shares)
    if not wanted or not all(isinstance(s, int | float) and 0 < s < 1 for s in wanted):
        raise SpecError("shares of quantiles lie between 0 and 1", field="shares")
    if column in by:
        raise QueryError(f'"{column}" cannot be both the column and a group')
    grid = read(subject, (column, *by), where=where, target=target)
    if not is_number(subject, column):
        raise QueryError(f'quantiles need numbers; "{column}" holds none')
    numbers = np.broadcast_to(grid.variables[column].numbers(), grid.weight.shape)
    weight = np.where(np.isnan(numbers), 0.0, grid.weight)
    groups = _groups(grid, by, weight)
    known = not any(grid.variables[name].randomised for name in by)  # then a row's law is as in all groups together
    domain = np.unique(numbers[weight != 0])
    rows: list[Quantile] = []
    of_all = [_slopes(grid, numbers, weight, share, domain, target) if known else None for share in wanted]
    for group, inside in groups:
        for share, slopes in zip(wanted, of_all, strict=True):
            here = np.unique(numbers[inside != 0])
            if slopes is None:
                slope = _slopes(grid, numbers, inside, share, here, target)
            else:
                slope = slopes[np.searchsorted(domain, here)]
            value, low, high = _invert(grid, numbers, inside, share, (1 - level) / 2, target, slope)
            rows.append(Quantile(group=group, share=share, value=value, low=low, high=high))
    return Quantiles(column=column, by=by, rows=tuple(rows), target=target, level=level, caveats=grid.caveats)


def _groups(grid: Grid, by: Sequence[str], weight: Floats) -> list[tuple[tuple[Scalar, ...], Floats]]:
    """(values of the group, weight inside it) for every combination that a row may have."""
    codes = [np.broadcast_to(grid.variables[name].codes, weight.shape) for name in by]
    joint = np.zeros(weight.shape, dtype=np.int64)
    for name, code in zip(by, codes, strict=True):
        joint = joint * len(grid.variables[name].values) + code
    found = []
    numbers = np.unique(joint[weight != 0])
    check_groups(len(numbers), by)
    for number in numbers:
        inside = joint == number
        first = tuple(int(i) for i in np.argwhere(inside)[0])
        group = tuple(grid.variables[n].values[code[first]] for n, code in zip(by, codes, strict=True))
        found.append((group, weight * inside))
    return found


def _invert(
    grid: Grid, numbers: Floats, weight: Floats, share: float, tail: float, target: Target, slope: Floats
) -> tuple[float, float, float]:
    """(point, low, high) among the values that rows of the group may have.

    `tail` may be missed on either side; `slope` is how the variance of G moves with it, by value.
    """
    domain = np.unique(numbers[weight != 0])
    N = grid.functionals.counts() * weight
    total = float(N.sum())
    if total <= 0:
        return np.nan, float(domain[0]), float(domain[-1])
    inside = weight != 0
    steps = np.bincount(np.searchsorted(domain, numbers[inside]), weights=N[inside], minlength=len(domain))
    below = np.cumsum(steps)
    G = np.asarray(below - share * total, dtype=np.float64)
    stated = _variances(grid, numbers, weight, share, domain, target)
    variance = np.maximum(stated - slope * G, STAYS * stated)  # as it is if G is 0: the stated one was drawn with G
    zero, third = np.zeros_like(G), slope * variance
    monotone = isotonic_regression(below / total).x
    point = _first(monotone >= share - 1e-12, len(domain) - 1)
    # rounding of sums of thousands of counts must not move an exact end
    slack = 1e-9 * max(1.0, total)
    low = _first((lower_tail(G, zero, variance, third) >= tail) | (-slack <= G), len(domain) - 1)
    under = np.flatnonzero((upper_tail(G, zero, variance, third) >= tail) & ((variance > 0) | (-slack > G)))
    high = min(int(under[-1]) + 1, len(domain) - 1) if under.size else 0
    return float(domain[point]), float(domain[min(low, point)]), float(domain[max(high, point)])


def _variances(grid: Grid, numbers: Floats, weight: Floats, share: float, domain: Floats, target: Target) -> Floats:
    """Stated variance of G at every value."""
    return _by_value(grid, numbers, weight, share, domain, lambda f, h: np.maximum(np.diag(f.covariance(h, target)), 0))


def _slopes(grid: Grid, numbers: Floats, weight: Floats, share: float, domain: Floats, target: Target) -> Floats:
    """How the variance of G moves with G; sampling adds sum h^2 = (1 - 2 share) G + share (1 - share) size."""
    found = _by_value(grid, numbers, weight, share, domain, lambda f, h: f.variance_slopes(h, "table"))
    return found + (1 - 2 * share) * (target == "population")


def _by_value(
    grid: Grid,
    numbers: Floats,
    weight: Floats,
    share: float,
    domain: Floats,
    what: Callable[[Functionals, Functions], Floats],
) -> Floats:
    """A number for the G of every value, some neighbouring values at a time.

    The functions of some values are the same in all cells whose number lies below them, and in all above: these are
    merged, so that the work grows with the number of values to the power 1.5, not 2.
    """
    alike = [np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1) for rows in (weight, np.nan_to_num(numbers))]
    plain = bool((np.isnan(numbers) | (numbers == numbers[:, :1])).all())  # each cell has one number
    place = np.searchsorted(domain, np.nan_to_num(numbers[:, 0])) if plain else alike[1]
    together = max(TOGETHER, 2 * math.isqrt(len(domain)))
    found = []
    for start in range(0, len(domain), together):
        some = domain[start : start + together]
        here = np.clip(place, start - 1, start + len(some)) if plain else place
        _, first, label = np.unique(
            alike[0] * (len(domain) + len(place) + 2) + here + 1, return_index=True, return_inverse=True
        )
        few = grid.cells.merged(label.reshape(-1).astype(np.intp), len(first))

        def planes(at: slice, some: Floats = some, first: NDArray[np.intp] = first) -> Planes:
            h = (numbers[first[at]][:, None, :] <= some[None, :, None]) - share
            return {0: h * weight[first[at]][:, None, :]}

        found.append(what(grid.sums(few), Functions(size=len(some), planes=planes)))
    return np.concatenate(found)


def _first(true: NDArray[np.bool_], otherwise: int) -> int:
    at = np.flatnonzero(true)
    return int(at[0]) if at.size else otherwise


def _known(number: float) -> float | None:
    return None if np.isnan(number) else number


def by_keys(
    subject: Subject, query: Query, aggregate: Aggregate, keys: tuple[int, ...], *, level: float, target: Target
) -> dict[tuple[Any, ...], tuple[float, float, float]] | None:
    """A quantile of SQL with its interval by the values of the keys; None where it is not of columns as they are."""
    if aggregate.kind != "quantile" or aggregate.share is None or not 0 < aggregate.share < 1:
        return None
    names = {quoted(name): name for name in subject.schema.types}
    wanted = [aggregate.source, *(query.keys[i].sql for i in keys)]
    if any(sql not in names for sql in wanted):
        return None
    conditions = [f"({sql})" for sql in (query.condition, aggregate.chosen) if sql]
    try:
        found = quantile(
            subject,
            names[wanted[0]],
            aggregate.share,
            by=[names[sql] for sql in wanted[1:]],
            where=" AND ".join(conditions) or None,
            target=target,
            level=level,
        )
    except UnsupportedQuery:
        return None
    return {row.group: (row.value, row.low, row.high) for row in found.rows}
