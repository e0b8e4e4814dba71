"""Shares or means compared between groups: each with its error, and the differences from the first group.

A share or a mean is a ratio of two sums over the true rows; (t - ratio) 1[group] / size is what one row adds to it.
docs/explanation/inference.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..answering.subject import Subject
from ..errors import QueryError, SpecError, UnsupportedQuery
from ..methods.shared.linear_functionals import Functions, Planes, Target
from ..model.public import Floats
from ..model.smallest_p import SMALLEST_P
from ..reports.text import p_text, percent, table, visible
from ..stats.tail_inversion import lower_tail, tail_interval, upper_tail
from .cells import Grid, check_asked, check_groups, is_number, numbers_on, read
from .recoding import Recode
from .skewed_columns import few_rows, powers
from .wording import listed

LEAST_SIZE = 2.0  # standard errors that the size of a group must be above 0
STAYS = 0.25  # of the stated variance, however far from the estimate a difference is tested
FAR = 40.0  # standard errors beyond which no difference is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastGroup:
    """A group's share or mean, and its difference from the first group's (None for that one)."""

    level: str
    value: float
    se: float
    difference: float | None
    difference_se: float | None
    low: float | None
    high: float | None
    z: float | None
    pvalue: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Groups of one column compared."""

    what: str
    by: str
    groups: tuple[ContrastGroup, ...]
    target: Target
    level: float
    caveats: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As a document."""
        keys = ("level", "value", "se", "difference", "difference_se", "low", "high", "z", "pvalue")
        rows = [
            dict(
                zip(
                    keys,
                    (g.level, g.value, g.se, g.difference, g.difference_se, g.low, g.high, g.z, g.pvalue),
                    strict=True,
                )
            )
            for g in self.groups
        ]
        return {
            "what": self.what,
            "by": self.by,
            "target": self.target,
            "level": self.level,
            "rows": rows,
            "caveats": list(self.caveats),
        }

    def __str__(self) -> str:
        header = (self.by, "value", "± se", "difference", "± se", f"{percent(self.level)} interval", "p")
        rows = [
            (
                g.level,
                *(f"{x:.4g}" for x in (g.value, g.se)),
                *("-" if x is None else f"{x:.4g}" for x in (g.difference, g.difference_se)),
                "-" if g.low is None else f"{g.low:.4g} .. {g.high:.4g}",
                p_text(g.pvalue),
            )
            for g in self.groups
        ]
        title = visible(f"{self.what} by {self.by}; differences from {self.groups[0].level}")
        return "\n".join([title, table(header, rows), *(f"note: {caveat}" for caveat in self.caveats)])


def compare(
    subject: Subject,
    *,
    by: str,
    share: str | None = None,
    mean: str | None = None,
    where: str | None = None,
    recode: Recode | None = None,
    target: Target = "population",
    level: float = 0.95,
) -> Comparison:
    """The share of rows that meet a condition, or the mean of a column, in every group of `by`."""
    check_asked(target, level)
    if (share is None) == (mean is None):
        raise SpecError("give one of share (a condition) and mean (a column)", field="share")
    columns = (by,) if mean is None else (by, mean)
    grid = read(subject, columns, where=where, recode=recode, flags=() if share is None else (share,))
    weight = grid.weight
    if mean is not None:
        if not is_number(subject, mean):
            raise QueryError(f'a mean needs numbers; "{mean}" holds none')
        t, weight = numbers_on(grid, mean)
    else:
        t = grid.flags[0]
    variable = grid.variables[by]
    codes = np.broadcast_to(variable.codes, weight.shape)
    levels = np.unique(codes[weight != 0])
    if levels.size < 2:
        raise QueryError(f'"{by}" has one value among the rows that take part; a comparison needs two')
    K = levels.size
    check_groups(K, (by,))

    def inside(at: slice) -> Any:
        return (codes[at][:, None, :] == levels[None, :, None]) * weight[at][:, None, :]

    N = grid.functionals.counts()
    sizes = np.einsum("cv,ckv->k", N, inside(slice(None)), optimize=True)
    S_sizes = grid.functionals.covariance(Functions(size=K, planes=lambda at: {0: inside(at)}), "table")
    poor = np.flatnonzero(sizes <= LEAST_SIZE * np.sqrt(np.maximum(np.diag(S_sizes), 0.0)))
    if poor.size:
        names = listed([f"{by}[{variable.labels[levels[i]]}]" for i in poor])
        raise UnsupportedQuery(f"too little information about {names}: merge levels (recode) or exclude them (where)")
    ratio = np.einsum("cv,ckv->k", N * t, inside(slice(None)), optimize=True) / sizes

    def planes(at: slice) -> Planes:
        return {0: inside(at) * (t[at][:, None, :] - ratio[None, :, None]) / sizes[None, :, None]}

    functions = Functions(size=K, planes=planes)
    S = grid.functionals.covariance(functions, target)
    if variable.randomised:
        slopes, spread = grid.functionals.variance_slopes(functions, target), np.diag(S)
    else:
        slopes, spread = _as_in_all_rows(grid, weight, t, ratio, sizes, target)
        spread = np.where((np.diag(S) > 0) | (target == "population"), spread, 0.0)
    labels = [variable.labels[code] for code in levels]
    groups = _against_first(labels, ratio, S, slopes, spread, float(np.ptp(t[weight != 0])), 1 - level)
    what = f"share of {share}" if share is not None else f"mean of {mean}"
    caveats = grid.caveats
    if mean is not None and (np.diag(S) > 0).any():
        of_groups = [powers(N * weight * (codes == levels[k]), t - ratio[k]) for k in range(K)]
        caveats = (*few_rows(mean, *of_groups), *caveats)
    return Comparison(what=what, by=by, groups=groups, target=target, level=level, caveats=caveats)


def _as_in_all_rows(
    grid: Grid, weight: Floats, t: Floats, ratio: Floats, sizes: Floats, target: Target
) -> tuple[Floats, Floats]:
    """(K,) twice, of groups that are known: how a ratio's variance moves with it, and how large it is.

    As in all rows, because a group's own may be too few to tell. A population's variance is that around the group's
    own mean: its slope falls by twice what the mean rises.
    """
    together = float(ratio @ sizes / sizes.sum())
    of_all = Functions.of((weight * (t - together))[:, None, :])
    slope = grid.functionals.variance_slopes(of_all, target) + 2 * (together - ratio) * (target == "population")
    by_row = max(float(grid.functionals.covariance(of_all, target)[0, 0]), 0.0) / sizes.sum()
    return np.asarray(slope / sizes), np.asarray(by_row / sizes)


def _against_first(
    labels: list[str], ratio: Floats, S: Floats, slopes: Floats, spread: Floats, widest: float, alpha: float
) -> tuple[ContrastGroup, ...]:
    """Every group with its difference from the first one; no two ratios differ by more than `widest`."""
    groups = []
    for k, label in enumerate(labels):
        difference = difference_se = low = high = z = p = None
        if k:
            difference = float(ratio[k] - ratio[0])
            difference_se = float(np.sqrt(max(S[k, k] + S[0, 0] - 2 * S[0, k], 0.0)))
            both = float(spread[k] + spread[0])  # the groups err as much as these say, whatever their few rows show
            slope = float(slopes[k] * spread[k] - slopes[0] * spread[0]) / both if both > 0 else 0.0
            variance = difference_se**2 or both
            low, high, z, p = _tested(difference, variance, slope, widest, alpha)
        groups.append(
            ContrastGroup(
                level=label,
                value=float(ratio[k]),
                se=float(np.sqrt(max(S[k, k], 0.0))),
                difference=difference,
                difference_se=difference_se,
                low=low,
                high=high,
                z=z,
                pvalue=p,
            )
        )
    return tuple(groups)


def _tested(
    gap: float, variance: float, slope: float, widest: float, alpha: float
) -> tuple[float, float, float | None, float]:
    """(low, high, z, p) of a difference, by the test of each difference with the variance that it would have.

    The stated variance was drawn with the estimate: it is off by `slope` times as much as the estimate is.
    docs/explanation/inference.md, section 6.
    """
    if variance <= 0:  # a difference without error is what it is
        return gap, gap, None, 0.0 if gap else 1.0
    at, zero, reach = np.array(gap), np.zeros(()), min(widest, abs(gap) + FAR * (np.sqrt(variance) + abs(slope)))

    def v(x: Floats) -> Floats:
        return np.maximum(variance + slope * (x - gap), STAYS * variance)

    def k(x: Floats) -> Floats:
        return slope * v(x)

    low, high = tail_interval(at, v, k, alpha, -reach, reach)
    tail = upper_tail if gap > 0 else lower_tail
    p = float(np.clip(2 * tail(at, zero, v(zero), k(zero)), SMALLEST_P, 1.0))
    return float(low), float(high), float(np.copysign(-ndtri(p / 2), gap)) + 0.0, p
