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
from ..reports.text import p_text, percent, table, visible
from ..stats.pvalues import two_sided
from .cells import check_asked, check_groups, is_number, numbers_on, read
from .recoding import Recode
from .skewed_columns import few_rows, powers
from .wording import listed

LEAST_SIZE = 2.0  # standard errors that the size of a group must be above 0


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

    S = grid.functionals.covariance(Functions(size=K, planes=planes), target)
    z = float(-ndtri((1 - level) / 2))
    groups = []
    for k in range(K):
        own = float(np.sqrt(max(S[k, k], 0.0)))
        if k == 0:
            numbers_of = (None,) * 6
        else:
            gap, se = float(ratio[k] - ratio[0]), float(np.sqrt(max(S[k, k] + S[0, 0] - 2 * S[0, k], 0.0)))
            score = gap / se if se > 0 else None  # a difference without error is what it is
            p_value = float(two_sided(np.array(score))) if score is not None else 0.0 if gap else 1.0
            numbers_of = (gap, se, gap - z * se, gap + z * se, score, p_value)  # type: ignore[assignment]
        difference, difference_se, low, high, score_of, p = numbers_of
        groups.append(
            ContrastGroup(
                level=variable.labels[levels[k]],
                value=float(ratio[k]),
                se=own,
                difference=difference,
                difference_se=difference_se,
                low=low,
                high=high,
                z=score_of,
                pvalue=p,
            )
        )
    what = f"share of {share}" if share is not None else f"mean of {mean}"
    caveats = grid.caveats
    if mean is not None and (np.diag(S) > 0).any():
        of_groups = [powers(N * weight * (codes == levels[k]), t - ratio[k]) for k in range(K)]
        caveats = (*few_rows(mean, *of_groups), *caveats)
    return Comparison(what=what, by=by, groups=tuple(groups), target=target, level=level, caveats=caveats)
