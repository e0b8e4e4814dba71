"""Whether two columns go together: a test, Cramer's V, the odds ratio, correlations, tables, each with its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtri

from ..answering.subject import Subject
from ..engines.codes import factorise
from ..engines.statements import COUNT
from ..errors import QueryError, UnsupportedQuery
from ..laws.functionals import Functions, Planes, Target
from ..model.names import ENDS, free_name
from ..model.public import ADDED, Floats
from ..release.opened import OpenedRelease
from ..reports.text import p_said, percent, visible
from ..stats.association import (
    CorrectedAssociation,
    corrected_association,
    expectation_maximisation,
    project_to_simplex,
)
from ..stats.intervals import chi_square_tail, normal_quantile, two_sided
from ..stats.kronecker import AxisMap, apply_maps, channel, inverse
from .cells import Grid, Recode, check_asked, few_rows, is_number, numbers_on, powers, read

TINY = float(np.finfo(np.float64).tiny)
STEPS = 40  # of a bisection: the ends are within 1e-12
MOST_LEVELS = 900  # levels of one column times levels of the other
PUBLISHED, WALD = "Pearson's chi-square on the published table", "Wald"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddsRatio:
    """The odds ratio of a two by two table; the interval is worked out on the log scale."""

    value: float
    low: float
    high: float
    log_se: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Independence:
    """A test of independence. V and its interval are None where the release does not tell them."""

    x: str
    y: str
    test: str
    statistic: float
    df: int
    pvalue: float
    cramers_v: float | None
    low: float | None  # 0 where only an upper limit is known
    high: float | None
    odds_ratio: OddsRatio | None
    target: Target
    level: float
    caveats: tuple[str, ...]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of V."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def to_dict(self) -> dict[str, Any]:
        """The document of `sfumato test --format json`."""
        found: dict[str, Any] = {
            "x": self.x,
            "y": self.y,
            "test": self.test,
            "statistic": self.statistic,
            "df": self.df,
            "p": self.pvalue,
            "cramers_v": self.cramers_v,
            "low": self.low,
            "high": self.high,
            "target": self.target,
            "level": self.level,
        }
        if self.odds_ratio is not None:
            ratio = self.odds_ratio
            found["odds_ratio"] = {"value": ratio.value, "low": ratio.low, "high": ratio.high}
        return found | {"caveats": list(self.caveats)}

    def __str__(self) -> str:
        lines = [
            f"{self.x} and {self.y}: {self.test}",
            f"chi2({self.df}) = {self.statistic:.4g}, {p_said(self.pvalue)}",
        ]
        if self.cramers_v is not None and self.high is not None:
            lines.append(
                f"Cramer's V {self.cramers_v:.3f}, {percent(self.level)} interval {self.low:.3f} .. {self.high:.3f}"
            )
        elif self.high is not None:
            lines.append(f"Cramer's V below {self.high:.3f} ({percent(self.level)})")
        if self.odds_ratio is not None:
            ratio = self.odds_ratio
            lines.append(
                f"odds ratio {ratio.value:.3g}, {percent(self.level)} interval {ratio.low:.3g} .. {ratio.high:.3g}"
            )
        return "\n".join([*lines, *(f"note: {c}" for c in self.caveats)])


def independence_test(
    subject: Subject,
    x: str,
    y: str,
    *,
    where: str | None = None,
    recode: Recode | None = None,
    target: Target = "population",
    level: float = 0.95,
) -> Independence:
    """The test that two columns are independent, with how strongly they go together."""
    if x == y:
        raise QueryError("two different columns are needed")
    check_asked(target, level)
    grid = read(subject, (x, y), where=where, recode=recode, target="population")  # whom the hypothesis is about
    levels = tuple(_levels(grid, name) for name in (x, y))
    if levels[0].size * levels[1].size > MOST_LEVELS:
        raise UnsupportedQuery(
            f"{levels[0].size} times {levels[1].size} levels are too many for one test", hint="Merge levels (recode)."
        )
    z = float(-ndtri((1 - level) / 2))
    table = TwoWayTable(
        grid, tuple(np.broadcast_to(grid.variables[n].codes, grid.weight.shape) for n in (x, y)), levels
    )
    published = grid.published(x, y)
    caveats = list(grid.caveats)
    if published is not None:
        name, (statistic, df) = PUBLISHED, pearson(table.counted(published))
    else:
        name, (statistic, df) = WALD, table.wald()
    strength, low, high = table.cramers_v(target, z)
    pvalue = chi_square_tail(df, statistic) if df else 1.0
    if strength is None:
        caveats.append(_without_strength(known=high is not None, together=pvalue < 1 - level))
    ratio = table.odds_ratio(target, z) if (levels[0].size, levels[1].size) == (2, 2) else None
    if ratio is None and (levels[0].size, levels[1].size) == (2, 2):
        caveats.append("no odds ratio: an estimated count is less than 2 standard errors above 0")
    return Independence(
        x=x,
        y=y,
        test=name,
        statistic=statistic,
        df=df,
        pvalue=pvalue,
        cramers_v=strength,
        low=low,
        high=high,
        odds_ratio=ratio,
        target=target,
        level=level,
        caveats=tuple(caveats),
    )


def _without_strength(*, known: bool, together: bool) -> str:
    """Why there is no V; a test that finds the columns dependent has told it apart from 0, whatever its own noise."""
    if not known:
        return "Cramer's V is not given: a level's estimated count is not above 0"
    if together:
        return "the columns go together, by the test; how strongly is not told: an upper limit of Cramer's V only"
    return "Cramer's V is not told apart from 0: an upper limit only"


def _levels(grid: Grid, name: str) -> NDArray[np.intp]:
    codes = np.broadcast_to(grid.variables[name].codes, grid.weight.shape)
    found = np.unique(codes[grid.weight != 0])
    if found.size < 2:
        raise QueryError(f'"{name}" has one value among the rows that take part; a test needs two')
    return found


def pearson(counts: Floats) -> tuple[float, int]:
    """(chi-square, degrees of freedom) of a table of counts; empty rows and columns count for nothing."""
    held = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    expected = np.outer(held.sum(axis=1), held.sum(axis=0)) / held.sum()
    statistic = float(((held - expected) ** 2 / expected).sum())
    return statistic, (held.shape[0] - 1) * (held.shape[1] - 1)


class TwoWayTable:
    """Two columns crossed: d[i, j] = sum of (1[x = i] - p_i)(1[y = j] - q_j), with its covariance."""

    def __init__(self, grid: Grid, codes: Sequence[NDArray[np.intp]], levels: Sequence[NDArray[np.intp]]) -> None:
        self._grid = grid
        self._x, self._y = (
            np.stack([(code == lv) * grid.weight for lv in held], axis=1).astype(np.float64)
            for code, held in zip(codes, levels, strict=True)
        )  # (cells, levels, values)
        self.counts = self.counted(grid.functionals.counts())
        self.n = float(self.counts.sum())
        self.p, self.q = self.counts.sum(axis=1) / self.n, self.counts.sum(axis=0) / self.n
        self.d = (self.counts - self.n * np.outer(self.p, self.q)).ravel()
        self._S: dict[Target, Floats] = {}

    def counted(self, table: Floats) -> Floats:
        """(levels of x, levels of y) sums of a (cells, values) table."""
        return np.einsum("cv,civ,cjv->ij", table, self._x, self._y, optimize=True)

    def covariance(self, target: Target) -> Floats:
        """S of d; that p and q are estimated does not change it, because the derivatives of d in them are 0."""
        if target not in self._S:
            I, J = len(self.p), len(self.q)

            def planes(at: slice) -> Planes:
                weight = self._grid.weight[at][:, None, :]
                left, right = self._x[at] - self.p[:, None] * weight, self._y[at] - self.q[:, None] * weight
                return {0: (left[:, :, None, :] * right[:, None, :, :]).reshape(len(left), I * J, -1)}

            found = self._grid.functionals.covariance(Functions(size=I * J, planes=planes), target)
            self._S[target] = (found + found.T) / 2
        return self._S[target]

    def wald(self) -> tuple[float, int]:
        """d' S^-1 d with the last level of each column left out, errors of a population."""
        I, J = len(self.p), len(self.q)
        at = np.arange(I * J).reshape(I, J)[:-1, :-1].ravel()
        S = self.covariance("population")[np.ix_(at, at)]
        scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
        eigen, vectors = np.linalg.eigh(S / scale[:, None] / scale[None, :])
        if eigen[0] <= 1e-10 * eigen[-1]:
            raise UnsupportedQuery(
                "the release says too little about some of the levels for a test", hint="Merge levels (recode)."
            )
        turned = vectors.T @ (self.d[at] / scale)
        return float((turned**2 / eigen).sum()), len(at)

    def cramers_v(self, target: Target, z: float) -> tuple[float | None, float | None, float | None]:
        """(V, low, high) by k V^2 = d'Qd - tr QS; V None: an upper limit only.

        The interval has every V that agrees with d'Qd, whose variance where V^2 = u is a u + 2 tr QSQS: taken at the
        estimate it would be small just where the estimate is too low. docs/explanation/inference.md, section 6.
        """
        if (self.p <= 0).any() or (self.q <= 0).any():
            return None, None, None
        k = min(len(self.p), len(self.q)) - 1
        Q = 1 / (self.n**2 * np.outer(self.p, self.q)).ravel()
        S = self.covariance(target)
        plain, noise = float(self.d @ (Q * self.d)), float((Q * np.diag(S)).sum())
        square = (plain - noise) / k
        QS = Q[:, None] * S
        rest = max(float(np.einsum("ij,ji->", QS, QS)), 0.0)
        a = 4 * k * np.sqrt(rest)  # no direction of d has more
        if square > 0:
            a = min(a, max(4 * float(self.d @ (QS @ (Q * self.d))) - 4 * rest, 0.0) / square)

        def agrees(u: float) -> bool:
            mean = max(k * u + noise, TINY)  # of d'Qd; its root is nearly normal, by the delta method
            return bool(abs(np.sqrt(plain) - np.sqrt(mean)) <= z * np.sqrt((a * u + 2 * rest) / (4 * mean)))

        inside = min(max(square, 0.0), 1.0)
        low, high = (float(np.sqrt(_farthest(agrees, inside, end))) for end in (0.0, 1.0))
        if plain < 2 * noise:
            return None, 0.0, high
        return float(np.sqrt(square)), low, high

    def odds_ratio(self, target: Target, z: float) -> OddsRatio | None:
        """Of a two by two table; None where a cell is less than 2 standard errors above 0."""

        def planes(at: slice) -> Planes:
            both = self._x[at][:, :, None, :] * self._y[at][:, None, :, :]
            return {0: both.reshape(len(both), 4, -1)}

        S = self._grid.functionals.covariance(Functions(size=4, planes=planes), target)
        n = self.counts.ravel()
        table_S = (
            S if target == "table" else self._grid.functionals.covariance(Functions(size=4, planes=planes), "table")
        )
        if (n <= 2 * np.sqrt(np.maximum(np.diag(table_S), 0.0))).any():
            return None
        slope = np.array([1.0, -1.0, -1.0, 1.0]) / n
        log, se = float(np.log(n) @ np.sign(slope)), float(np.sqrt(max(float(slope @ S @ slope), 0.0)))
        return OddsRatio(
            value=float(np.exp(log)), low=float(np.exp(log - z * se)), high=float(np.exp(log + z * se)), log_se=se
        )


def _farthest(agrees: Callable[[float], bool], inside: float, end: float) -> float:
    """The number farthest from `inside`, towards `end`, that agrees."""
    if agrees(end):
        return end
    outside = end
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if agrees(middle) else (inside, middle)
    return inside


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


# Contingency tables, and the uncertainty coefficient, of a release whose columns are randomised independently.


WAYS = ("em", "simplex")
MAX_CELLS = 20_000_000
MAX_DRAWS = 2_000_000  # numbers of one release that an association's interval simulates, 150 times


def smoothed(release: OpenedRelease, columns: Sequence[str], nonnegative: str) -> pa.Table:
    """Counts of every cell, non-negative by EM or projection, without errors."""
    if nonnegative not in WAYS:
        raise QueryError(f'nonnegative must be one of {", ".join(WAYS)}, got "{nonnegative}"')
    observed, channels, labels = _observed(release, columns)
    rows = observed.sum()
    if nonnegative == "em":
        estimate = rows * expectation_maximisation(observed, channels)
    else:
        estimate = rows * project_to_simplex(apply_maps([inverse(c) for c in channels], observed) / rows)
    places = np.unravel_index(np.arange(estimate.size), estimate.shape)
    shown = {c: v.take(pa.array(p)) for c, v, p in zip(columns, labels, places, strict=True)}
    return pa.table({**shown, free_name("n", columns, ENDS): estimate.ravel()})


def association(release: OpenedRelease, x: str, y: str, level: float) -> CorrectedAssociation:
    """Uncertainty coefficient I(X; Y) / H(Y) of the original table, corrected for noise, with its interval.

    The counts seed the draws, so that the same question gets the same answer.
    """
    observed, channels, _ = _observed(release, [x, y])
    if observed.size * max(observed.shape) > MAX_DRAWS:
        raise UnsupportedQuery(f"an association of {observed.shape[0]:,} x {observed.shape[1]:,} values is too large")
    first, second = (np.eye(n) if c is None else c.dense() for c, n in zip(channels, observed.shape, strict=True))
    rng = np.random.default_rng(observed.ravel().astype(np.uint32))
    return corrected_association(observed, first, second, normal_quantile(level), rng)


def _observed(release: OpenedRelease, columns: Sequence[str]) -> tuple[Floats, list[AxisMap | None], list[pa.Array]]:
    """Released counts over the declared domains (observed values for untouched columns), and each axis' channel."""
    thetas = release.law.axes()
    if thetas is None:
        raise UnsupportedQuery(f'tables of this kind are not made from a release by "{release.manifest.method}"')
    known = {c.name for c in release.columns if c.role not in ADDED}
    unknown = [c for c in columns if c not in known]
    if unknown or len(set(columns)) < len(columns) or not columns:
        raise QueryError(f'there is no column "{unknown[0]}"' if unknown else "name different columns, at least one")
    units = {name: u for u, domain in enumerate(release.domains) for name in domain.columns}
    seen = release.reader.count(columns)
    codes: list[Any] = []
    channels: list[AxisMap | None] = []
    labels = []
    for c in columns:
        if c not in units:
            code, values = factorise(seen[c])
            channels.append(None)
        else:
            coder = release.coders[units[c]]
            code = coder.encode([seen[c]])
            values = pa.array([v[0] for v in coder.domain.values], type=seen[c].type)
            channels.append(channel(thetas[units[c]], len(values)))
        codes.append(code)
        labels.append(values)
    shape = tuple(len(v) for v in labels)
    if math.prod(shape) > MAX_CELLS:
        raise UnsupportedQuery(f"the table would have {math.prod(shape):,} cells; ask for fewer columns")
    flat = np.ravel_multi_index(tuple(codes), shape)
    made = np.bincount(flat, weights=seen[COUNT].to_numpy(), minlength=math.prod(shape)).astype(np.float64)
    return made.reshape(shape), channels, labels
