"""What a publisher asks of randomized-response, and the search for keep probabilities at a risk."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ...errors import DataError, PlanError, SpecError
from ...model.names import Ratio, exact, parts, stated_share
from ...model.private import Profile
from ...model.public import Domain
from ...stats.gamma import floor_significant, gamma_bound
from ...stats.joint_codes import sum_by_group
from ...stats.kronecker import Floats, keep_of_theta, log_error, theta_of_keep
from ..contract import Specification
from ..shared.restricted import BINS_FIELD, RHO1, RHO2, parse_bins, parse_rhos, told
from .risk import SLACK, RiskCells, View, infimum, max_risk, reconstruction, views

SCOPES = ("s", "qi", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(Specification):
    """Randomise the sensitive columns (scope "s"), the quasi-identifiers ("qi") or both.

    `risk` lets the method choose keep probabilities; `keep` gives them, per column, and columns it does not name are
    published as they are. `rho1` and `rho2` limit the sensitive columns' channels together, so that a prior of at most
    rho1 ends at most at rho2; beside `risk`, or alone with scope "s".
    """

    method: ClassVar[str] = "randomized-response"

    scope: str = field(
        default="both", metadata=told("randomise sensitive columns (s), quasi-identifiers (qi), or both", "s")
    )
    risk: Ratio | None = field(default=None, metadata=told("bound on the paper's disclosure risk", "1/3"))
    keep: Mapping[str, Ratio] | str | None = field(
        default=None, metadata=told("keep probabilities of columns", "occupation=0.6")
    )
    bins: Mapping[str, Sequence[Ratio]] | str | None = field(default=None, metadata=BINS_FIELD)
    rho1: Ratio | None = field(default=None, metadata=RHO1)
    rho2: Ratio | None = field(default=None, metadata=RHO2)

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise SpecError(f'scope must be one of {", ".join(SCOPES)}, got "{self.scope}"', field="scope")
        given = [value for value in (self.risk, self.keep) if value is not None]
        limited = self.rhos() is not None
        if limited and self.keep is not None:
            raise SpecError("keep probabilities are given: leave rho1 and rho2 out", field="keep")
        if limited and not given and self.scope != "s":
            raise SpecError(
                "rho1 and rho2 alone randomise the sensitive columns: say scope s, or give a risk too", field="scope"
            )
        if len(given) != 1 and not (limited and not given):
            what = "both were given" if given else "neither was given"
            raise SpecError(f"give either a risk or keep probabilities; {what}", field="risk")
        if self.keep is not None:
            self.keeps()
        self.tau()
        self.edges()

    def rhos(self) -> tuple[Fraction, Fraction] | None:
        """rho1 and rho2, exact; None where they are not given."""
        if self.rho1 is None and self.rho2 is None:
            return None
        if self.rho1 is None or self.rho2 is None:
            raise SpecError("rho1 and rho2 go together; give both", field="rho1")
        return parse_rhos(self.rho1, self.rho2)

    def tau(self) -> Fraction | None:
        """The bound on the risk; None with given keep probabilities."""
        if self.risk is None:
            return None
        tau = exact(self.risk, "risk")
        if not 0 < tau <= 1:
            raise SpecError(f"risk must lie above 0 and at most 1, got {tau}; state it as 1/3", field="risk")
        return tau

    def edges(self) -> dict[str, tuple[float, ...]]:
        """Lower edges of the bins of each binned column; the last bin has no upper end."""
        return parse_bins(self.bins)

    def keeps(self) -> dict[str, Fraction]:
        """Given keep probabilities by column."""
        if self.keep is None:
            return {}
        pairs = self.keep.items() if isinstance(self.keep, Mapping) else _pairs(self.keep)
        found = {column: exact(p, "keep") for column, p in pairs}
        for column, p in found.items():
            if not 0 < p <= 1:
                raise SpecError(
                    f'keep probability of "{column}" is {p}; it must lie above 1 / (values of the column) and at '
                    "most at 1",
                    field="keep",
                )
        return found


def _pairs(text: str) -> list[tuple[str, str]]:
    found = parts(text, "keep")
    pairs = [(column, value) for column, value in found if value is not None]
    if not pairs or len(pairs) < len(found):
        raise SpecError(f'keep probabilities are written column=p,column=p, got "{text}"', field="keep")
    return pairs


# Keep probabilities that lose the least utility while every risk stays at or below tau; which columns move.


# --- keep bound -------------------------------------------------------------------------------------------------------
# Closed forms for planning with `reconstruction_bound`, when the QI cells do not fit a tensor.
#
# The bound depends on the quasi-identifiers through E = sum_i ln(p_i / q_i) only: first the largest E, then its split.


def worst_targets(v: View, tau: float, s_columns: Sequence[int], keep: int = 400) -> View:
    """The cells that bind first at a few keep probabilities of the sensitive columns: enough to search with.

    What is found with them must be checked against all cells.
    """
    flat = v.true_counts.reshape(len(v.true_counts), -1)
    alone = flat.max(axis=1) == flat.sum(axis=1)  # one value only: rho = 1 whatever is kept, so the largest binds
    if alone.any():
        largest = np.flatnonzero(alone)[np.argmax(flat[alone].max(axis=1))]
        alone[largest] = False
        v = v.keep_rows(~alone)
    chosen = np.zeros(len(v.shares), dtype=bool)
    for s_theta in (1.0, 0.75, 0.5, 0.25, 0.05) if s_columns else (1.0,):
        thetas = [s_theta if c in s_columns else 1.0 for c in range(len(v.sizes))]
        chosen[np.argsort(_limits(v, thetas, tau))[:keep]] = True
    return v.keep_rows(chosen)


def largest_log_odds(all_views: Sequence[View], thetas: Sequence[float], tau: float) -> float:
    """The largest E with f rho pi e^E / (1 - pi + pi e^E) <= tau in every cell: e^E <= c (1 - pi) / (pi (1 - c))."""
    return min(
        (float(_limits(v, thetas, tau).min()) for v in all_views if v.grid is None or v.moving), default=math.inf
    )


def _limits(v: View, thetas: Sequence[float], tau: float) -> Floats:
    """Per observed cell, the largest E it allows; infinite where f rho <= tau already."""
    rho, _ = reconstruction(v.shares, v.sensitive, thetas, v.sizes)
    worst = (v.conditional * rho).reshape(len(v.shares), -1).max(axis=1)
    pi, c = v.quasi_shares, tau / (worst * (1.0 + SLACK))
    out = np.full(len(pi), math.inf)
    t = c < 1.0
    out[t] = np.log(c[t]) + np.log1p(-pi[t]) - np.log(pi[t]) - np.log1p(-c[t])
    return out


@functools.cache
def _slopes(size: int) -> tuple[Floats, Floats]:
    """A grid of e = ln(p / q) and minus the log slope of the log error there, which rises with e.

    theta = (e^e - 1) / (e^e + d - 1); the log error log(1 + (d - 1) / theta^2) is convex and falling in e.
    """
    e = np.geomspace(1e-6, 60.0, 20_000)
    low = np.exp(-e)
    t = -np.expm1(-e) / (1.0 + (size - 1.0) * low)
    d_theta = size * low / (1.0 + (size - 1.0) * low) ** 2
    slope = 2.0 * (size - 1.0) * d_theta / (t * (t * t + size - 1.0))
    return e, -np.log(slope)


def split_log_odds(budget: float, sizes: Sequence[int]) -> list[float]:
    """thetas of least total log error with sum_i ln(p_i / q_i) = budget: the same slope for every column."""
    tables = [_slopes(d) for d in sizes]

    def at(price: float) -> Floats:
        return np.array([np.interp(price, slope, e) for e, slope in tables])

    low, high = -40.0, 80.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if at(middle).sum() > budget else (middle, high)
    e = at(low)
    e *= min(1.0, budget / e.sum()) if e.sum() > budget else 1.0
    return [float(-np.expm1(-x) / (1.0 + (d - 1.0) * np.exp(-x))) for x, d in zip(e, sizes, strict=True)]


# --- keep search ------------------------------------------------------------------------------------------------------
# Keep probabilities that lose the least utility while every `paper_risk` stays at or below tau.
#
#     minimise  sum_i log(1 + (d_i - 1) / theta_i^2)    subject to   max paper_risk <= tau,   0 < theta_i <= 1
#
# By docs/explanation/randomized-response.md, Theorem 3, the optimum lies on the boundary, one free parameter is a
# bisection, and rounding down is safe. The feasible set is not convex: several starts, each polished by SLSQP on the
# worst cells. The starts are fixed, so equal input gives equal output.


STARTS = 8
WORST = 64
LARGE = 200_000  # QI cells above which one evaluation is dear: one start, one short local search, fewer steps
FLOOR = 1e-4  # smallest theta tried: below it the error bars exceed any table
DECIMALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepPlan:
    """Keep probabilities per column (1 for a copied one), rounded down, and what they achieve."""

    keep: tuple[float, ...]
    unrounded: tuple[float, ...]
    risk: float
    infimum: float
    objective: float  # before rounding
    exact: bool  # False: the risk is the bound, because the QI cells do not fit a tensor


def search_keep(
    all_views: Sequence[View],
    *,
    sizes: Sequence[int],
    randomised: Sequence[bool],
    tau: Fraction,
    starts: int = STARTS,
    limits: Mapping[int, float] | None = None,
) -> KeepPlan:
    """The keep probabilities of least expected error whose largest paper_risk is at most tau.

    `limits` are the largest keep probabilities of some columns. A column that would be kept more often is fixed at its
    limit and the others are searched again: the risk falls with every keep probability, so tau stays reachable.
    """
    if not (0 < tau <= 1):
        raise SpecError(f"risk must lie above 0 and at most 1, got {tau}; state it as 1/l with l >= 1", field="risk")
    fixed: dict[int, float] = {}
    while True:
        found = _search(all_views, sizes, randomised, tau, starts, fixed)
        above = {c: p for c, p in (limits or {}).items() if c not in fixed and found.keep[c] > p}
        if not above:
            return found
        fixed |= above


def _search(
    all_views: Sequence[View],
    sizes: Sequence[int],
    randomised: Sequence[bool],
    tau: Fraction,
    starts: int,
    fixed: Mapping[int, float],
) -> KeepPlan:
    free = [c for c, r in enumerate(randomised) if r and sizes[c] > 1 and c not in fixed]
    low = infimum(all_views, randomised)
    problem = _Problem(all_views, sizes, free, tau, {c: theta_of_keep(p, sizes[c]) for c, p in fixed.items()})
    if not problem.views or (fixed and problem.feasible(np.ones(len(free)))):  # without views: f <= tau, in integers
        best = np.ones(len(free))
    elif not free or low >= tau:
        raise infeasible(low, float(tau))
    elif len(free) == 1:
        best = problem.to_boundary(np.ones(1))
    elif not problem.exact:
        best = _search_bound(problem)
    else:
        best = _search_exact(problem, starts)
    found = _finish(problem, best, low)
    return replace(found, keep=tuple(fixed.get(c, p) for c, p in enumerate(found.keep)))


def infeasible(low: float, tau: float) -> PlanError:
    """The refusal of a tau that no keep probabilities reach."""
    largest = math.ceil(1.0 / low) - 1 if low > 0 else 0
    reach = f"the largest feasible l is {largest}" if largest > 1 else "no l above 1 is feasible"
    return PlanError(
        f"risk {tau:.4g} cannot be reached: it stays above {low:.4g} however much is randomised; {reach}", limit=low
    )


class _Problem:
    """The objective and the binding constraints as functions of the free thetas."""

    def __init__(
        self,
        all_views: Sequence[View],
        sizes: Sequence[int],
        free: Sequence[int],
        tau: Fraction,
        fixed: Mapping[int, float],
    ) -> None:
        self.sizes, self.free, self.tau = tuple(sizes), list(free), float(tau)
        self.start = [fixed.get(c, 1.0) for c in range(len(self.sizes))]  # theta of every column that is not free
        # only cells with f > tau can bind, because eta and rho are at most 1
        binding = [v.above(tau) for v in all_views]
        self.views = [v.keep_rows(rows) for v, rows in zip(all_views, binding, strict=True) if rows.any()]
        self.all_views = all_views
        self.cells = max((v.grid.size for v in all_views if v.grid is not None), default=1)
        self.steps = 40 if self.cells <= LARGE else 14
        self.exact = all(v.grid is not None or not v.moving for v in all_views)

    def thetas(self, x: Floats) -> list[float]:
        full = list(self.start)
        for c, value in zip(self.free, x, strict=True):
            full[c] = float(value)
        return full

    def objective(self, x: Floats) -> float:
        return log_error(self.thetas(x), self.sizes)

    def risk(self, x: Floats) -> float:
        return max_risk(self.views, self.thetas(x))

    def to_boundary(self, direction: Floats) -> Floats:
        """The largest multiple of `direction`, cut at 1, that is feasible; FLOOR if none is."""
        top = 1.0 / float(direction.min())
        return _bisect(lambda t: np.clip(t * direction, FLOOR, 1.0), self.feasible, FLOOR, top, self.steps)

    def feasible(self, x: Floats) -> bool:
        return self.risk(x) <= self.tau

    def raise_each(self, x: Floats) -> Floats:
        """x with every theta raised, one after the other, to its own limit."""
        for i in range(len(x)):

            def along(t: float, i: int = i, x: Floats = x) -> Floats:
                return np.concatenate([x[:i], [t], x[i + 1 :]])

            x = _bisect(along, self.feasible, float(x[i]), 1.0, self.steps)
        return x

    def snap(self, x: Floats) -> Floats:
        """x with thetas a hair below 1 set to 1 and the others scaled back to the boundary, if that costs nothing."""
        near = (x > 1.0 - 1e-3) & (x < 1.0)
        if not near.any() or near.all():
            return x
        snapped = _bisect(
            lambda t: np.where(near, 1.0, np.clip(t * x, FLOOR, 1.0)),
            self.feasible,
            0.9,
            1.0 / float(x.min()),
            self.steps,
        )
        good = self.feasible(snapped) and self.objective(snapped) <= self.objective(x) + 1e-5
        return snapped if good else x

    def cell_risks(self, x: Floats) -> tuple[list[Floats], list[list[Floats]]]:
        """Every view's risks (flat) and their derivatives by each free theta."""
        thetas = self.thetas(x)
        values, slopes = [], []
        for v in self.views:
            assert v.grid is not None or not v.moving
            at, width = tuple(v.place.T), [1] * len(v.sensitive)
            f = v.conditional
            eta, d_eta = np.ones(len(f)), {}
            if v.grid is not None and v.moving:
                full, parts = reconstruction(v.grid, v.moving, thetas, v.sizes, gradient=True)
                eta, d_eta = full[at], {c: p[at] for c, p in zip(v.moving, parts, strict=True)}
            s_free = any(c in self.free for c in v.sensitive)
            rho, s_parts = reconstruction(v.shares, v.sensitive, thetas, v.sizes, gradient=s_free)
            d_rho = dict(zip(v.sensitive, s_parts, strict=False))
            eta = eta.reshape(-1, *width)
            values.append((f * eta * rho).ravel())
            slopes.append(
                [
                    (f * rho * d_eta[c].reshape(-1, *width)).ravel()
                    if c in d_eta
                    else (f * eta * d_rho[c]).ravel()
                    if c in d_rho
                    else np.zeros(f.size)
                    for c in self.free
                ]
            )
        return values, slopes


def _bisect(
    along: Callable[[float], Floats], feasible: Callable[[Floats], bool], low: float, high: float, steps: int
) -> Floats:
    """along(t) for the largest feasible t in [low, high], given that feasibility is lost once; along(low) if none."""
    if feasible(along(high)):
        return along(high)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if feasible(along(middle)) else (low, middle)
    return along(low)


def _search_exact(problem: _Problem, starts: int) -> Floats:
    rng = np.random.default_rng(20260)  # fixed: it picks starting points, never noise
    n = len(problem.free)
    best, best_value = None, math.inf
    large = problem.cells > LARGE
    starts = starts if problem.cells <= LARGE // 10 else 3
    directions = [np.ones(n), _bound_direction(problem), *(rng.uniform(0.15, 1.0, n) for _ in range(starts - 2))]
    if large:
        directions = [min((problem.to_boundary(d) for d in directions[:2]), key=problem.objective)]
    for direction in directions:
        x = problem.to_boundary(direction)
        if not problem.feasible(x):
            continue
        value = problem.objective(x)
        for _ in range(1 if large else 8):
            candidate = problem.to_boundary(_slsqp(problem, x, iterations=8 if large else 60))
            candidate_value = problem.objective(candidate)
            if not problem.feasible(candidate) or candidate_value > value - 1e-7:
                break
            x, value = candidate, candidate_value
        if value < best_value + 1e-3:
            x = problem.snap(problem.raise_each(x))
            value = problem.objective(x)
        if value < best_value:
            best, best_value = x, value
    if best is None:
        raise PlanError("no feasible keep probabilities were found; use fewer quasi-identifiers or a smaller l")
    return best


def _bound_direction(problem: _Problem) -> Floats:
    """The optimum under the bound on eta with the sensitive columns untouched, as a direction."""
    quasi = [c for c in problem.free if any(c in v.moving for v in problem.views)]
    budget = largest_log_odds(problem.views, problem.start, problem.tau)
    x = np.full(len(problem.free), 0.9)
    if quasi and 0 < budget < math.inf:
        split = dict(zip(quasi, split_log_odds(budget, [problem.sizes[c] for c in quasi]), strict=True))
        x = np.array([split.get(c, 0.9) for c in problem.free])
    return np.maximum(x, FLOOR)


def _slsqp(problem: _Problem, x0: Floats, *, iterations: int) -> Floats:
    """A local optimum over log theta, constraints on the worst cells at x0 only."""
    from scipy.optimize import minimize  # a quarter of a second to load, for this method alone

    values, _ = problem.cell_risks(x0)
    flat = np.concatenate(values)
    worst = np.argsort(flat)[::-1][:WORST]
    worst = worst[flat[worst] > 0]
    weight = np.array([problem.sizes[c] - 1.0 for c in problem.free])
    cache: dict[bytes, tuple[Floats, Floats]] = {}

    def constraints(y: Floats) -> tuple[Floats, Floats]:
        key = y.tobytes()
        if key not in cache:
            cache.clear()
            x = np.exp(y)
            risks, slopes = problem.cell_risks(x)
            risk = np.concatenate(risks)[worst]
            jacobian = np.stack([np.concatenate([s[i] for s in slopes])[worst] for i in range(len(x))], axis=1)
            cache[key] = np.log(problem.tau) - np.log(risk), -jacobian * x / risk[:, None]
        return cache[key]

    def objective(y: Floats) -> tuple[float, Floats]:
        inverse_square = np.exp(-2.0 * y)
        return float(np.log1p(weight * inverse_square).sum()), -2.0 / (1.0 + np.exp(2.0 * y) / weight)

    solved = minimize(  # type: ignore[call-overload]  # the stub knows no mapping for `constraints`
        objective,
        np.log(x0),
        jac=True,
        method="SLSQP",
        bounds=[(math.log(FLOOR), 0.0)] * len(x0),
        constraints={"type": "ineq", "fun": lambda y: constraints(y)[0], "jac": lambda y: constraints(y)[1]},
        options={"maxiter": iterations, "ftol": 1e-9},
    )
    return np.exp(np.clip(solved.x, math.log(FLOOR), 0.0)) if np.all(np.isfinite(solved.x)) else x0


def _search_bound(problem: _Problem) -> Floats:
    """The optimum under the bound on eta, which depends on the QI columns through E = sum ln(p_i / q_i) only.

    For given sensitive thetas (one common value: a line search, refined twice) the largest E is closed form.
    """
    quasi = [c for c in problem.free if any(c in v.moving for v in problem.views)]
    rest = [c for c in problem.free if c not in quasi]
    sizes = problem.sizes
    few = [worst_targets(v, problem.tau, rest) for v in problem.views]

    def solve(s_theta: float, targets: Sequence[View]) -> tuple[float, Floats]:
        thetas = [s_theta if c in rest else problem.start[c] for c in range(len(sizes))]
        budget = largest_log_odds(targets, thetas, problem.tau)
        if budget <= 0:
            return math.inf, np.ones(len(problem.free))
        for c, t in zip(quasi, split_log_odds(budget, [sizes[c] for c in quasi]), strict=True):
            thetas[c] = t
        x = np.array([thetas[c] for c in problem.free])
        return problem.objective(x), x

    best, low, high = 1.0, 0.02, 1.0
    for _ in range(3 if rest else 0):
        line = np.linspace(low, high, 21)
        k = int(np.argmin([solve(float(t), few)[0] for t in line]))
        best, low, high = float(line[k]), float(line[max(k - 1, 0)]), float(line[min(k + 1, len(line) - 1)])
    value, x = solve(best, problem.views)  # all cells again: the few only steered the search
    if not math.isfinite(value):
        raise PlanError(
            "no keep probabilities satisfy the bound for this many quasi-identifier cells; "
            "use fewer quasi-identifiers, coarser bins or a smaller l"
        )
    return x


def _round_down(keep: float, size: int) -> float:
    """keep with as few decimals (three or more) as leave it above 1/d, never larger than before."""
    if size == 1 or keep >= 1.0:
        return 1.0
    for digits in range(DECIMALS, 13):
        rounded = math.floor(keep * 10**digits + 1e-12) / 10**digits
        if rounded <= keep and rounded * size > 1.0:
            return rounded
    return keep


def _finish(problem: _Problem, best: Floats, low: float) -> KeepPlan:
    thetas = problem.thetas(best)
    sizes = problem.sizes
    unrounded = tuple(keep_of_theta(t, d) for t, d in zip(thetas, sizes, strict=True))
    keep = tuple(_round_down(p, d) for p, d in zip(unrounded, sizes, strict=True))
    rounded = [theta_of_keep(p, d) if p < 1.0 else 1.0 for p, d in zip(keep, sizes, strict=True)]
    risk = max_risk(problem.views or problem.all_views, rounded)  # cells left out have risk <= f <= tau
    if problem.views and risk > problem.tau:
        raise PlanError(f"the rounded keep probabilities have risk {risk:.6g}, above {problem.tau:.6g}", limit=low)
    return KeepPlan(
        keep=keep,
        unrounded=unrounded,
        risk=risk,
        infimum=low,
        objective=log_error(thetas, sizes),
        exact=problem.exact,
    )


# --- keep choice ------------------------------------------------------------------------------------------------------
# Which columns move and how far: limits from rho1 and rho2, categories, the search for keep probabilities.


MOST_NUMBERS = 100  # distinct numbers a column may have without bins or a declared domain


def moving(spec: RandomizedResponse, profile: Profile) -> list[bool]:
    """Which units may move; the same rule as in `needs`."""
    given, sensitive = spec.keeps(), set(profile.sensitive)
    if given:
        return [domain.columns[0] in given for domain in profile.domains]
    return [spec.scope == "both" or (spec.scope == "s") == (u in sensitive) for u in range(len(profile.domains))]


def check_categories(domain: Domain) -> None:
    """Refuse a column of numbers that stands for a quantity: bins or a declared domain make it categories."""
    if domain.declared:
        return
    values = [v[0] for v in domain.values if v[0] is not None]
    fractional = any(isinstance(v, float | Decimal) for v in values)
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if fractional or (whole and len(values) > MOST_NUMBERS):
        raise DataError(
            f'column "{domain.columns[0]}" holds {len(values)} different numbers; give public bins '
            f"(--bins {domain.columns[0]}=EDGE,EDGE,...) or declare its domain (--domain)",
            column=domain.columns[0],
        )


def cells_of(profile: Profile) -> RiskCells:
    """The distinct cells of the table as the risk functions take them."""
    histogram = profile.histograms[0]
    return RiskCells(
        codes=histogram.codes.astype(np.int64),
        true_counts=histogram.true_counts,
        sizes=tuple(len(domain) for domain in profile.domains),
    )


def most_frequent(cells: RiskCells, unit: int) -> float:
    """The share of the unit's most frequent value as a release may state it, rounded up."""
    count = sum_by_group(cells.true_counts, cells.codes[:, unit], cells.sizes[unit])
    return float(stated_share(int(count.max()), int(count.sum())))


def keep_limit(rho1: Fraction, rho2: Fraction, size: int, cells: int) -> float:
    """The largest keep probability, rounded down, of one of a person's sensitive cells, whose gammas multiply.

    gamma^cells <= gamma(rho1, rho2), and keep / other = gamma with (size - 1) other = 1 - keep. A person has as many
    cells as there are sensitive columns, times her rows.
    """
    whole = gamma_bound(rho1, rho2)
    gamma = floor_significant(whole, 3)
    if cells > 1:  # the root, rounded down by whole thousandths
        steps = int(float(whole) ** (1 / cells) * 1000) + 1
        while Fraction(steps, 1000) ** cells > whole:
            steps -= 1
        gamma = Fraction(steps, 1000)
    if gamma <= 1:
        raise PlanError(
            f"rho1 = {rho1} and rho2 = {rho2} are too close: gamma rounds down to {float(gamma):g}"
            + (f" for {cells} sensitive cells of a person; lower --max-rows-per-person" if cells > 1 else "")
        )
    keep = gamma / (gamma + size - 1)
    for digits in range(3, 13):
        cut = Fraction(keep.numerator * 10**digits // keep.denominator, 10**digits)
        if cut * size > 1:
            return float(cut)
    raise PlanError(f"rho1 = {rho1} and rho2 = {rho2} are too close for a column of {size} values")


def limits_of(spec: RandomizedResponse, profile: Profile) -> dict[int, float]:
    """The largest keep probability of every sensitive unit; none where no rhos are given."""
    rhos = spec.rhos()
    if rhos is None:
        return {}
    if spec.scope == "qi":
        raise SpecError('scope "qi" leaves the sensitive columns as they are: rho2 cannot be held', field="scope")
    cells = len(profile.sensitive) * profile.rows_per_person
    return {u: keep_limit(*rhos, len(profile.domains[u]), cells) for u in profile.sensitive}


def searched(
    spec: RandomizedResponse, profile: Profile, randomised: list[bool], tau: Fraction, limits: Mapping[int, float]
) -> KeepPlan:
    """The keep probabilities of least error at this risk, or the refusal with the scope that could reach it."""
    cells = cells_of(profile)
    sensitive = list(profile.sensitive)
    quasi = [u for u in range(len(cells.sizes)) if u not in sensitive]
    seen = views(cells, quasi=quasi, sensitive=sensitive, randomised=randomised)
    try:
        return search_keep(seen, sizes=cells.sizes, randomised=randomised, tau=tau, limits=limits)
    except PlanError as refusal:
        reached = {}
        for scope in SCOPES:
            moves = [scope == "both" or (scope == "s") == (u in sensitive) for u in range(len(cells.sizes))]
            others = views(cells, quasi=quasi, sensitive=sensitive, randomised=moves)
            reached[scope] = infimum(others, moves)
        able = [scope for scope, low in reached.items() if low < tau and scope != spec.scope]
        hint = f"scope {' or '.join(able)} could reach it" if able else "no scope reaches it: merge or drop columns"
        raise PlanError(f"scope {spec.scope}: {refusal}; {hint}", limit=refusal.limit) from None
