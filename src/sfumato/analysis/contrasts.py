"""Shares or means compared between groups: each with its error, and the differences from the first group.

A share or a mean is a ratio of two sums over the true rows; (t - ratio) 1[group] / size is what one row adds to it.
docs/explanation/inference.md, section 6.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..answering.subject import Subject
from ..errors import QueryError, SpecError, UnsupportedQuery
from ..laws.functionals import Functions, Planes, Target
from ..model.names import SMALLEST_P
from ..model.public import Floats
from ..reports.text import p_text, percent, table, visible
from ..stats.intervals import lower_tail, moved_inside, tail_interval, upper_tail
from .cells import Grid, Recode, check_asked, check_groups, few_rows, is_number, listed, numbers_on, powers, read

LEAST_SIZE = 2.0  # standard errors that the size of a group must be above 0
STAYS = 0.25  # of the stated variance, however far from the estimate a difference is tested
ROUNDING = 1e-12  # ratios as near as this are the same
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
        return {
            "what": self.what,
            "by": self.by,
            "target": self.target,
            "level": self.level,
            "rows": [asdict(group) for group in self.groups],
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
    grid = read(subject, columns, where=where, recode=recode, flags=() if share is None else (share,), target=target)
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
    possible = (0.0, 1.0) if share is not None else (float(t[weight != 0].min()), float(t[weight != 0].max()))
    least = ROUNDING * (possible[1] - possible[0]) ** 2 / sizes
    own = np.where(np.diag(S) > least, np.diag(S), 0.0)
    if variable.randomised:
        slopes, spread = grid.functionals.variance_slopes(functions, target), own
    else:
        slopes, spread = _as_in_all_rows(grid, weight, t, ratio, sizes, target)
        # all rows together may be known where a group of them is not
        spread = np.where((spread > least) & ((own > 0) | (target == "population")), spread, own)
    if share is not None and target == "population" and not spread.any():
        spread, own = ROUNDING / sizes, np.zeros(K)  # no row differs from another: groups err by their rows alone
    laws = [RatioLaw(*of) for of in zip(ratio.tolist(), own.tolist(), slopes.tolist(), spread.tolist(), strict=True)]
    labels = [variable.labels[code] for code in levels]
    groups = _against_first(labels, laws, S[0], possible, 1 - level)
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
    own mean: its slope falls by twice what the mean rises. Of rows of one kind, with t = t^2, it is 1 - 2 ratio.
    """
    together = float(ratio @ sizes / sizes.sum())
    of_all = Functions.of((weight * (t - together))[:, None, :])
    slope = grid.functionals.variance_slopes(of_all, target)
    if target == "population":
        same = grid.functionals.exact and np.ptp(t[weight != 0]) == 0
        slope = (1 - 2 * together if same else slope) + 2 * (together - ratio)
    by_row = max(float(grid.functionals.covariance(of_all, target)[0, 0]), 0.0) / sizes.sum()
    return np.asarray(slope / sizes), np.asarray(by_row / sizes)


@dataclass(frozen=True, slots=True)
class RatioLaw:
    """A group's estimated ratio, its stated variance, how that moves with the ratio, and how large it usually is."""

    ratio: float
    variance: float
    slope: float
    spread: float

    def at(self, ratio: Floats) -> Floats:
        """The variance if this were the true ratio."""
        least = STAYS * (self.variance or self.spread)
        return np.asarray(np.maximum(self.variance + self.slope * (ratio - self.ratio), least))


def _against_first(
    labels: list[str], laws: list[RatioLaw], with_first: Floats, possible: tuple[float, float], alpha: float
) -> tuple[ContrastGroup, ...]:
    """Every group with its difference from the first one; all true ratios lie between the `possible` ones."""
    groups: list[ContrastGroup] = []
    for label, law, together in zip(labels, laws, with_first, strict=True):
        difference = difference_se = low = high = z = p = None
        if groups:
            difference = law.ratio - laws[0].ratio
            shared = float(together)
            difference_se = float(np.sqrt(max(law.variance + laws[0].variance - 2 * shared, 0.0)))
            low, high, z, p = _tested(law, laws[0], shared, possible, alpha)
            if difference_se == 0:  # of rows that are all alike; an error of 0 beside an interval would say "exact"
                difference_se = (high - low) / (-2 * float(ndtri(alpha / 2)))
        groups.append(
            ContrastGroup(
                level=label,
                value=law.ratio,
                se=float(np.sqrt(law.variance)),
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
    law: RatioLaw, first: RatioLaw, shared: float, possible: tuple[float, float], alpha: float
) -> tuple[float, float, float | None, float]:
    """(low, high, z, p) of a difference, by the test of each difference with the variance that it would have.

    If x is the true difference, the groups' estimates are off by x less the estimated one together, each in
    proportion to how much it errs and no farther than to what is possible.
    docs/explanation/inference.md, section 6.
    """
    gap, both = law.ratio - first.ratio, law.spread + first.spread
    if both <= 0:  # a difference without error is what it is
        return gap, gap, None, 0.0 if gap else 1.0
    least, most = possible

    def parts(x: Floats) -> tuple[Floats, Floats]:
        near = law.ratio + (x - gap) * law.spread / both
        near = np.clip(near, np.maximum(least, least + x), np.minimum(most, most + x))
        return law.at(near), first.at(near - x)

    def v(x: Floats) -> Floats:
        one, other = parts(x)
        return np.maximum(one + other - 2 * shared, STAYS * (one + other))

    def k(x: Floats) -> Floats:
        one, other = parts(x)
        return (law.slope * one - first.slope * other) * v(x) / (one + other)

    slopes = max(abs(law.slope), abs(first.slope))
    reach = min(most - least, abs(gap) + FAR * (float(np.sqrt(v(np.array(gap)))) + slopes))
    low, high = tail_interval(np.array(gap), v, k, alpha, -reach, reach)
    if np.isclose(law.ratio, first.ratio, rtol=ROUNDING, atol=0.0):
        return float(low), float(high), 0.0, 1.0
    zero, at = np.zeros(()), moved_inside(np.array(gap), v, alpha, -reach, reach)
    tail = upper_tail if gap > 0 else lower_tail
    p = float(np.clip(2 * tail(at, zero, v(zero), k(zero)), SMALLEST_P, 1.0))
    return float(low), float(high), float(np.copysign(-ndtri(p / 2), gap)) + 0.0, p
