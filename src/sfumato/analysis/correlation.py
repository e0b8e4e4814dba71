"""Pearson's correlation of two columns of numbers, with its error. docs/explanation/inference.md, section 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..answering.subject import Subject
from ..errors import QueryError, UnsupportedQuery
from ..methods.shared.linear_functionals import Functions, Target
from ..reports.text import p_said, percent, visible
from ..stats.intervals import two_sided
from .cells import check_asked, is_number, numbers_on, read
from .skewed_columns import few_rows, powers


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """r with its standard error and interval."""

    x: str
    y: str
    value: float
    se: float
    low: float
    high: float
    pvalue: float
    target: Target
    level: float
    caveats: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As a document."""
        return {
            "x": self.x,
            "y": self.y,
            "correlation": self.value,
            "se": self.se,
            "low": self.low,
            "high": self.high,
            "p": self.pvalue,
            "target": self.target,
            "level": self.level,
            "caveats": list(self.caveats),
        }

    def __str__(self) -> str:
        interval = f"{percent(self.level)} interval {self.low:.3f} .. {self.high:.3f}"
        line = (
            f"correlation of {self.x} and {self.y}: {self.value:.3f} ± {self.se:.3f}, {interval}, {p_said(self.pvalue)}"
        )
        return "\n".join([visible(line), *(f"note: {caveat}" for caveat in self.caveats)])


def correlation(
    subject: Subject, x: str, y: str, *, where: str | None = None, target: Target = "population", level: float = 0.95
) -> Correlation:
    """The correlation of two columns; rows in which one is null do not count."""
    check_asked(target, level)
    if x == y:
        raise QueryError("two different columns are needed")
    grid = read(subject, (x, y), where=where, target=target)
    for name in (x, y):
        if not is_number(subject, name):
            raise QueryError(f'a correlation needs numbers; "{name}" holds none')
    (u, of_u), (v, of_v) = (numbers_on(grid, name) for name in (x, y))
    weight = np.where(of_u == 0, 0.0, of_v)
    N = grid.functionals.counts() * weight
    n = float(N.sum())
    if n <= 0:
        raise UnsupportedQuery("no rows are left to correlate, as estimated")
    u, v = u - float((N * u).sum()) / n, v - float((N * v).sum()) / n
    Sxx, Syy, Sxy = (float((N * product).sum()) for product in (u * u, v * v, u * v))
    if Sxx <= 0 or Syy <= 0:
        raise UnsupportedQuery(f'the estimated variance of "{x if Sxx <= 0 else y}" is not above 0')
    r = Sxy / np.sqrt(Sxx * Syy)
    # the derivative of r in one row's weight
    influence = u * v / np.sqrt(Sxx * Syy) - r / 2 * (u * u / Sxx + v * v / Syy)
    S = grid.functionals.covariance(Functions.of((influence * weight)[:, None, :]), target)
    se = float(np.sqrt(max(float(S[0, 0]), 0.0)))
    few = (*few_rows(x, powers(N, u)), *few_rows(y, powers(N, v))) if se > 0 else ()
    z = float(-ndtri((1 - level) / 2))
    return Correlation(
        x=x,
        y=y,
        value=float(r),
        se=se,
        low=float(max(-1.0, r - z * se)),
        high=float(min(1.0, r + z * se)),
        pvalue=float(two_sided(np.array(r / se))) if se > 0 else float(r == 0),
        target=target,
        level=level,
        caveats=(*few, *grid.caveats),
    )
