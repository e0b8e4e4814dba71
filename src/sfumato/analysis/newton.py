"""The root of a corrected score, its sandwich errors, and refusals where the release says too little.

The score `sum_i a_i x_i (y_i - mu_i)` and the information `sum_i a_i mu'_i x_i x_i'` are sums over the true rows at a
fixed parameter, so a release estimates both without bias; Newton's method finds the parameter at which the estimated
score is 0. docs/explanation/inference.md, sections 2, 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import UnsupportedQuery
from ..laws.functionals import Cells, Functionals, Functions, Planes, Target, runs
from ..model.public import Floats
from .cells import listed
from .design import Family

STEPS = 50
HALVINGS = 30
STOP = 1e-9  # of the scaled score, times sqrt(n)
LEAST_RATIO = 3.0  # of an information to its standard error
NEAR_RATIO = LEAST_RATIO + 3.0  # its error is about 1: a table at the least hardly ever gets beyond this
SMALL_CHANGE = 1e-6  # of the predictor of any row, in the last step
LARGEST = 50.0  # a coefficient of a family that can run away, per standard deviation of its column
COLLINEAR = 1e-10
SPREAD = 1e-10  # of a column to its size: below, it is constant but for rounding
ROUNDING = 1e-9  # of the population's variance of a score
NOTHING = 1e-20  # of the sum of squared outcomes: residuals that are 0 but for rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A model on the grid. The outcome is on the grid (`outcome`, (J, cells or 1, values)) or a measure per equation.

    `weight` is (cells, values); rows also carry the measure `weight_measure` (0: none).
    """

    family: Family
    x: Floats  # (cells, values or 1, P)
    names: tuple[str, ...]  # P of them
    weight: Floats
    outcome: Floats | None
    outcome_measures: tuple[int, ...]  # J of them; empty if the outcome is on the grid
    weight_measure: int
    functionals: Functionals
    cells: Cells
    cell_rows: Floats

    @property
    def equations(self) -> int:
        return len(self.outcome_measures) if self.outcome is None else len(self.outcome)

    @property
    def size(self) -> int:
        """Coefficients in all."""
        return self.equations * self.x.shape[2]

    @property
    def narrow(self) -> bool:
        """Whether the right side reads no randomised column."""
        return self.x.shape[1] == 1

    @property
    def exact_design(self) -> bool:
        """Whether the information is known without error."""
        return self.narrow and bool((self.weight == self.weight[:, :1]).all())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """The coefficients (equation by equation), both covariances, and how much the release knows of each."""

    params: Floats
    covariance: dict[Target, Floats | None]
    information: Floats  # I_j / se(I_j)
    steps: int
    caveats: tuple[str, ...]


def solve(problem: Problem, labels: Sequence[str]) -> Solution:
    """The fit; `labels` name the coefficients in refusals."""
    inner, T = _standardised(problem)
    back = np.kron(np.eye(problem.equations), T)
    with np.errstate(over="ignore", invalid="ignore"):
        _check_collinear(inner)
        beta, steps = _newton(inner, problem, labels)
        A = information(inner, beta)
    inverse = _inverse(A, labels)
    ratio = information_ratio(inner, beta, inverse @ back.T)
    poor = [labels[int(j)] for j in np.flatnonzero(ratio < LEAST_RATIO)]
    if poor:
        raise UnsupportedQuery(
            f"too little information about {listed(poor)}: merge levels (recode) or exclude them (where)"
        )
    covariance, caveats = _sandwich(inner, beta, back @ inverse, labels)
    if near := [labels[int(j)] for j in np.flatnonzero(ratio < NEAR_RATIO)]:
        few = f"little information about {listed(near)}: other releases of the table refuse this fit"
        caveats = (f"{few}; intervals of answers that pass may be too narrow", *caveats)
    return Solution(params=back @ beta, covariance=covariance, information=ratio, steps=steps, caveats=caveats)


def _standardised(problem: Problem) -> tuple[Problem, Floats]:
    """The same model with columns of mean 0 (where there is an intercept) and spread 1, and T: beta = T beta'.

    A year, or an amount of 1e9, is then as good a number as any; a constant column stays what it is, and is refused.
    """
    rows = _taking_part(problem)
    total = max(float(rows.sum()), 1e-300)
    x = problem.x
    mean = np.einsum("cv,cvp->p", rows, x, optimize=True) / total
    constant = np.flatnonzero((np.where(rows[:, :, None] > 0, x, 1.0) == 1.0).all(axis=(0, 1)))
    size = _root_mean_square(rows, x)
    spread = np.sqrt([float((rows * (x[:, :, p] - mean[p]) ** 2).sum()) / total for p in range(x.shape[2])])
    moved = (spread > SPREAD * size) & (np.arange(x.shape[2]) != (constant[0] if constant.size else -1))
    centre = np.where(moved & (constant.size > 0), mean, 0.0)
    scale = np.where(centre != 0, spread, size)
    T = np.diag(1 / scale)
    if constant.size:
        T[constant[0]] -= centre / scale
    return replace(problem, x=(x - centre) / scale), T


def _sandwich(
    problem: Problem, beta: Floats, back: Floats, labels: Sequence[str]
) -> tuple[dict[Target, Floats | None], tuple[str, ...]]:
    """T A^-1 S A^-1 T' for both targets and what to say of them; refuses coefficients whose error comes out as none."""
    score = score_functions(problem, beta)
    S: dict[Target, Floats] = {t: problem.functionals.covariance(score, t) for t in ("population", "table")}
    # A score may be known exactly, as a sum over values whose totals are published: 0 but for rounding.
    known = bool((np.diag(S["table"]) >= -ROUNDING * np.abs(np.diag(S["population"]))).all())
    if known:
        # Sampling adds to the randomisation; estimated from counts below 0 it may come out as taking away.
        eigen, vectors = np.linalg.eigh(S["population"] - S["table"])
        if eigen[0] < 0:
            S["population"] = S["table"] + (vectors * np.maximum(eigen, 0.0)) @ vectors.T
    found: dict[Target, Floats | None] = {}
    for target, middle in S.items():
        both = back @ middle @ back.T
        found[target] = (both + both.T) / 2
    errors = np.diag(back @ S["population"] @ back.T)
    rounding = NOTHING * _squared_outcome(problem) * (back**2).sum(axis=1)
    none = [labels[int(j)] for j in np.flatnonzero(errors <= rounding)]
    if none:
        raise UnsupportedQuery(
            f"the error of {listed(none)} cannot be told: too few rows, or the terms determine the outcome",
            hint="Merge levels (recode), leave out a term, or take in more rows (where).",
        )
    if known:
        return found, ()
    caveat = "errors of the randomisation alone cannot be told: their estimate is not positive"
    return found | {"table": None}, (caveat,)


def _squared_outcome(problem: Problem) -> float:
    """The sum of squared outcomes over the published rows, weights included: what a residual of 0 is measured by."""
    if problem.outcome is None:
        return float(sum(problem.cells.moments[:, m, m].sum() for m in problem.outcome_measures))
    largest = float(np.abs(problem.outcome * problem.weight).max())
    return largest**2 * float(problem.cell_rows.sum())


# --- score and information ----------------------------------------------------------------------------------------


def score_functions(problem: Problem, beta: Floats) -> Functions:
    """h = a x (y - mu) for every equation and coefficient; an outcome that is a measure has its own plane."""
    J, P = problem.equations, problem.x.shape[2]

    def planes(at: slice) -> Planes:
        x, a = problem.x[at], problem.weight[at]
        n, V = a.shape
        mean = problem.family.mean(x @ beta.reshape(J, P).T)  # (n, V or 1, J)
        if problem.outcome is not None:
            y = np.moveaxis(np.broadcast_to(problem.outcome, (J, len(problem.weight), V))[:, at], 0, -1)
            h = (a[:, :, None] * (y - mean))[:, :, :, None] * x[:, :, None, :]
            return {problem.weight_measure: h.reshape(n, V, J * P).transpose(0, 2, 1)}
        found = {}
        minus = -(a[:, :, None] * mean)[:, :, :, None] * x[:, :, None, :]
        found[problem.weight_measure] = minus.reshape(n, V, J * P).transpose(0, 2, 1)
        plain = (a[:, :, None] * x).transpose(0, 2, 1)
        for j, measure in enumerate(problem.outcome_measures):
            h = np.zeros((n, J * P, V))
            h[:, j * P : (j + 1) * P] = plain
            found[measure] = h
        return found

    return Functions(size=J * P, planes=planes)


def score(problem: Problem, beta: Floats) -> Floats:
    """(J P,): the estimated score, from the estimated counts."""
    J, P = problem.equations, problem.x.shape[2]
    N = problem.functionals.counts(0, problem.weight_measure)
    found = np.zeros((J, P))
    for at in runs(len(N), N.shape[1] * P):
        x, a = problem.x[at], problem.weight[at]
        mean = problem.family.mean(x @ beta.reshape(J, P).T)
        scale = _collapse(N[at] * a, problem.narrow)
        for j in range(J):
            part = -scale * mean[:, :, j]
            if problem.outcome is not None:
                y = np.broadcast_to(problem.outcome[j], problem.weight.shape)[at]
                part = part + _collapse(N[at] * a * y, problem.narrow)
            else:
                Y = problem.functionals.counts(0, problem.outcome_measures[j])[at]
                part = part + _collapse(Y * a, problem.narrow)
            found[j] += np.einsum("cv,cvp->p", part, x, optimize=True)
    return found.ravel()


def information(problem: Problem, beta: Floats) -> Floats:
    """(J P, J P): the estimated sum of a mu' x x'."""
    J, P = problem.equations, problem.x.shape[2]
    N = problem.functionals.counts(0, problem.weight_measure)
    found = np.zeros((J, P, J, P))
    for at in runs(len(N), N.shape[1] * P):
        x = problem.x[at]
        slope = problem.family.slope(x @ beta.reshape(J, P).T)
        scale = _collapse(N[at] * problem.weight[at], problem.narrow)
        flat = x.reshape(-1, P)
        for j in range(J):
            for k in range(j, J):
                block = flat.T @ ((scale * slope[:, :, j, k]).reshape(-1, 1) * flat)
                found[j, :, k, :] += block
                if k > j:
                    found[k, :, j, :] += block.T
    return found.reshape(J * P, J * P)


def information_ratio(problem: Problem, beta: Floats, columns: Floats) -> Floats:
    """I_j / se(I_j): I_j = 1 / (A^-1)_jj = sum a mu' (v_j' x)^2 is itself a sum over the true rows.

    `columns`: column j is that of A^-1 up to a factor; the ratio does not depend on it.
    """
    J, P = problem.equations, problem.x.shape[2]
    if problem.exact_design or problem.functionals.exact:
        return np.full(J * P, np.inf)
    v = (columns / np.abs(columns).max(axis=0)).T.reshape(J * P, J, P)

    def planes(at: slice) -> Planes:
        x = problem.x[at]
        slope = problem.family.slope(x @ beta.reshape(J, P).T)
        z = np.einsum("cvp,fjp->cvfj", x, v, optimize=True)
        h = np.einsum("cvfj,cvjk,cvfk->cfv", z, slope, z, optimize=True)
        return {problem.weight_measure: h * problem.weight[at][:, None, :]}

    functions = Functions(size=J * P, planes=planes)
    value = problem.functionals.value(functions)
    variance = np.diag(problem.functionals.covariance(functions, "table"))
    return np.where(variance > 0, value / np.sqrt(np.maximum(variance, 1e-300)), np.inf)


def _collapse(table: Floats, narrow: bool) -> Floats:
    return table.sum(axis=1, keepdims=True) if narrow else table


# --- Newton's method ------------------------------------------------------------------------------------------------


def _newton(problem: Problem, given: Problem, labels: Sequence[str]) -> tuple[Floats, int]:
    """(root of the score, steps); `given` is the model as it was asked for, for refusals.

    A small score is not enough: where the outcome is separated it falls for ever while every step moves the predictor
    by about 1.
    """
    n, rows = float(problem.cell_rows.sum()), _taking_part(problem)
    beta = _start(problem)
    U = score(problem, beta)
    stop = STOP * np.sqrt(n) * max(1.0, abs(_mean_outcome(problem)))
    for step in range(STEPS + 1):
        norm = float(np.linalg.norm(U))
        try:
            move: Floats = np.asarray(np.linalg.solve(information(problem, beta), U), dtype=np.float64)
        except np.linalg.LinAlgError:
            raise _no_solution(given, labels) from None
        if problem.family.bounded:  # least squares: one step, and another for what rounding left
            if step == 2:
                return beta, step
            beta = beta + move
            U = score(problem, beta)
            continue
        shift = _largest_change(problem, move, rows)
        if (norm <= stop and shift <= SMALL_CHANGE) or shift <= STOP * SMALL_CHANGE:
            return beta, step
        for halving in range(HALVINGS):
            new = beta + move * 0.5**halving
            U_new = score(problem, new)
            lower = float(np.linalg.norm(U_new))
            if np.isfinite(lower) and lower < norm:
                break
        else:
            if shift <= SMALL_CHANGE:  # rounding: the score cannot be brought nearer to 0
                return beta, step
            raise _no_solution(given, labels)
        beta, U = new, U_new
        if float(np.abs(beta).max()) > LARGEST:
            raise _no_solution(given, labels)
    raise _no_solution(given, labels)


def _largest_change(problem: Problem, move: Floats, rows: Floats) -> float:
    """How far a step moves the predictor of any row that takes part."""
    steps = move.reshape(problem.equations, -1).T
    found = 0.0
    for at in runs(len(rows), rows.shape[1] * len(steps)):
        change = np.abs(problem.x[at] @ steps).max(axis=2)
        found = max(found, float(np.where(rows[at] > 0, change, 0.0).max()))
    return found


def _taking_part(problem: Problem) -> Floats:
    """(cells, values or 1): published rows of the cell where rows take part, else 0."""
    inside = problem.weight.max(axis=1, keepdims=True) if problem.narrow else problem.weight
    found: Floats = problem.cell_rows[:, None] * (inside != 0)
    return found


def _root_mean_square(rows: Floats, x: Floats) -> Floats:
    """Of every column of x among the rows that take part."""
    total = max(float(rows.sum()), 1e-300)
    return np.sqrt(np.maximum(np.einsum("cv,cvp->p", rows, x**2, optimize=True) / total, 1e-300))


def _mean_outcome(problem: Problem) -> float:
    N = problem.functionals.counts(0, problem.weight_measure) * problem.weight
    if problem.outcome is not None:
        top = float((N * np.broadcast_to(problem.outcome[0], N.shape)).sum())
    else:
        top = float((problem.functionals.counts(0, problem.outcome_measures[0]) * problem.weight).sum())
    total = float(N.sum())
    return top / total if total > 0 else 0.0


def _start(problem: Problem) -> Floats:
    """0, or the constant predictor at the overall mean, as near as the design has it."""
    beta: Floats = np.zeros(problem.size)
    eta = problem.family.link(_mean_outcome(problem))
    if eta and problem.equations == 1:
        rows = np.repeat(problem.cell_rows, problem.x.shape[1]) if not problem.narrow else problem.cell_rows
        flat = problem.x.reshape(-1, problem.x.shape[2])
        found = np.linalg.lstsq(flat.T @ (rows[:, None] * flat), flat.T @ (rows * eta), rcond=None)[0]
        beta = np.asarray(found, dtype=np.float64)
    return beta


# --- refusals -----------------------------------------------------------------------------------------------


def _check_collinear(problem: Problem) -> None:
    """Refuse a standardised design whose columns depend on each other wherever rows take part."""
    flat = problem.x.reshape(-1, problem.x.shape[2])
    rows = _taking_part(problem).reshape(-1, 1)
    gram = flat.T @ (rows * flat) / max(float(rows.sum()), 1.0)
    eigen, vectors = np.linalg.eigh(gram)
    if eigen[0] <= COLLINEAR * eigen[-1]:
        involved = [problem.names[p] for p in np.flatnonzero(np.abs(vectors[:, 0]) > 1e-4)]
        raise UnsupportedQuery(f"these terms determine each other: {listed(involved)}; leave one out")


def _inverse(A: Floats, labels: Sequence[str]) -> Floats:
    """A^-1, or the refusal that names what A does not know."""
    eigen, vectors = np.linalg.eigh((A + A.T) / 2)
    if eigen[0] <= 1e-12 * abs(eigen[-1]):
        worst = np.abs(vectors[:, 0])
        poor = [labels[int(j)] for j in np.flatnonzero(worst >= 0.5 * worst.max())]
        raise UnsupportedQuery(
            f"too little information about {listed(poor)}: merge levels (recode) or exclude them (where)"
        )
    found: Floats = (vectors / eigen) @ vectors.T
    return found


def _no_solution(problem: Problem, labels: Sequence[str]) -> UnsupportedQuery:
    """The refusal that names the column of which least is known: the least estimated sum of x^2 to its error."""
    text = "no finite solution: the estimated counts lie outside what the model can reach"
    if problem.narrow or problem.functionals.exact:
        return UnsupportedQuery(text, hint="Merge levels (recode), or leave out a term.")
    functions = Functions(
        size=problem.x.shape[2],
        planes=lambda at: {
            problem.weight_measure: (problem.weight[at][:, :, None] * problem.x[at] ** 2).transpose(0, 2, 1)
        },
    )
    value = problem.functionals.value(functions)
    variance = np.maximum(np.diag(problem.functionals.covariance(functions, "table")), 1e-300)
    worst = labels[int(np.argmin(value / np.sqrt(variance)))]
    return UnsupportedQuery(f"{text}; least is known about {worst}", hint="Merge levels (recode) or exclude (where).")
