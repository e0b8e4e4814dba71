"""Disclosure risk of a table whose columns are randomised independently, and what other readers get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...errors import PlanError
from ...stats.joint_codes import distinct_cells, sum_by_group
from ...stats.kronecker import AxisMap, Floats, apply_maps, channel, keep_of_theta, squared

# --- disclosure -------------------------------------------------------------------------------------------------------
# Disclosure risk of a table whose columns are randomised independently.
#
# pi are the true shares of the cells, S the sensitive axes, QI what the reader knows of the target. For channels P:
#
#     eta(QI)    = pi_QI * (P_QI squared)^T (1 / P_QI pi_QI)          chance to reconstruct QI
#     rho(QI, u) = sum_v p_vu^2 pi_{QI,u} / sum_w p_vw pi_{QI,w}      chance to reconstruct S = u inside QI
#     paper_risk = f * eta * rho,    f = pi_{QI,u} / pi_QI
#
# `paper_risk` is the probability of a conjunction (the picked record has the value AND both reconstructions are right).
# It is non-decreasing in every keep probability, and it can fall below what guessing without any data achieves: report
# it only beside the baseline, `linking_posterior`, `record_posterior` and `epsilon`.
#
# eta and rho are one function, `reconstruction`: rho treats every QI cell as a table of its own.


Ints = NDArray[np.int64]
CELL_LIMIT = 2_000_000  # QI cells of a dense tensor; the search evaluates it many times
TABLE_LIMIT = 40_000_000  # observed QI cells x sensitive values held at once
SLACK = 1e-9  # relative; float risks are inflated by it before they are compared with a threshold


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RiskCells:
    """The distinct full cells of a table: codes (C, columns), true counts (C,), the size of every domain."""

    codes: Ints
    true_counts: Ints
    sizes: tuple[int, ...]

    @property
    def rows(self) -> int:
        return int(self.true_counts.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """One target (the columns `sensitive`) as seen by a reader who knows the columns `quasi`.

    The QI columns that are copied are joined to one axis of observed combinations; the randomised ones keep an axis
    each. `grid` is the dense tensor of QI shares, or None if it has more than `cell_limit` cells and only the bound
    of `reconstruction_bound` can be used.
    """

    quasi: tuple[int, ...]
    sensitive: tuple[int, ...]
    moving: tuple[int, ...]  # the randomised quasi columns, one grid axis each after axis 0
    sizes: tuple[int, ...]  # of all columns of the table
    quasi_codes: Ints  # (K, quasi columns) the distinct observed QI cells
    place: Ints  # (K, 1 + moving) coordinates of those cells in the grid
    true_counts: Ints  # (K, S sizes...)
    shares: Floats  # the same, divided by all rows of the table
    grid: Floats | None

    @property
    def quasi_shares(self) -> Floats:
        return self.shares.reshape(len(self.shares), -1).sum(axis=1)

    @property
    def conditional(self) -> Floats:
        """f, the shares of the sensitive values inside each observed QI cell."""
        return self.shares / self.quasi_shares.reshape(-1, *[1] * (self.shares.ndim - 1))

    def above(self, tau: Fraction) -> NDArray[np.bool_]:
        """Which observed QI cells have a value with f > tau, in integers: only these can break the constraint."""
        flat = self.true_counts.reshape(len(self.true_counts), -1)
        return np.asarray(flat.max(axis=1) * tau.denominator > flat.sum(axis=1) * tau.numerator)

    def keep_rows(self, rows: NDArray[np.bool_]) -> View:
        """The same reader and grid, with only some of the observed cells as targets."""
        return replace(
            self,
            quasi_codes=self.quasi_codes[rows],
            place=self.place[rows],
            true_counts=self.true_counts[rows],
            shares=self.shares[rows],
        )


def view(
    cells: RiskCells,
    *,
    quasi: Sequence[int],
    sensitive: Sequence[int],
    randomised: Sequence[bool],
    cell_limit: int = CELL_LIMIT,
) -> View:
    """The view of one target; `randomised` says which columns of the table may have a keep probability below 1."""
    codes, total = cells.codes, cells.rows
    rows, row_of = distinct_cells(codes[:, list(quasi)])
    s_sizes = [cells.sizes[c] for c in sensitive]
    s_code = np.ravel_multi_index(tuple(codes[:, c] for c in sensitive), s_sizes)
    width = math.prod(s_sizes)
    if len(rows) * width > TABLE_LIMIT:
        raise PlanError(
            f"{len(rows):,} combinations of quasi-identifiers times {width:,} sensitive values are too many to compute "
            "the risk; use fewer or coarser columns, or give keep probabilities",
            limit=TABLE_LIMIT,
        )
    counts = np.bincount(row_of * width + s_code, weights=cells.true_counts, minlength=len(rows) * width)
    true_counts = counts.astype(np.int64).reshape(len(rows), *s_sizes)
    shares = true_counts / total
    moving = tuple(c for c in quasi if randomised[c])
    fixed = [j for j, c in enumerate(quasi) if not randomised[c]]
    fixed_rows, fixed_of = distinct_cells(rows[:, fixed])
    place = np.column_stack([fixed_of, *(rows[:, j] for j, c in enumerate(quasi) if randomised[c])])
    shape = (len(fixed_rows), *(cells.sizes[c] for c in moving))
    grid = None
    if math.prod(shape) <= cell_limit:
        grid = sum_by_group(shares.reshape(len(rows), -1).sum(axis=1), tuple(place.T), shape)
    return View(
        quasi=tuple(quasi),
        sensitive=tuple(sensitive),
        moving=moving,
        sizes=cells.sizes,
        quasi_codes=rows,
        place=place,
        true_counts=true_counts,
        shares=shares,
        grid=grid,
    )


def views(
    cells: RiskCells,
    *,
    quasi: Sequence[int],
    sensitive: Sequence[int],
    randomised: Sequence[bool],
    cell_limit: int = CELL_LIMIT,
) -> list[View]:
    """Every target that is checked: each sensitive column with the others as QI, then all of them jointly."""
    targets = [([*quasi, *(o for o in sensitive if o != s)], [s]) for s in sensitive]
    if len(sensitive) > 1:
        targets.append((list(quasi), list(sensitive)))
    return [view(cells, quasi=q, sensitive=s, randomised=randomised, cell_limit=cell_limit) for q, s in targets]


def channels_of(columns: Sequence[int], thetas: Sequence[float], sizes: Sequence[int]) -> list[AxisMap | None]:
    return [channel(thetas[c], sizes[c]) for c in columns]


def _derivatives(column: int, thetas: Sequence[float], sizes: Sequence[int]) -> tuple[AxisMap, AxisMap]:
    """d P / d theta and d (P squared) / d theta of one column, with q = (1 - theta) / d and p = theta + q."""
    d, theta = sizes[column], thetas[column]
    q, dq = (1.0 - theta) / d, -1.0 / d
    p, dp = theta + q, 1.0 + dq
    off = 2.0 * q * dq
    first = AxisMap(diagonal=np.full(d, 1.0), column=np.full(d, dq))
    return first, AxisMap(diagonal=np.full(d, 2.0 * p * dp - off), column=np.full(d, off))


def reconstruction(
    shares: Floats, columns: Sequence[int], thetas: Sequence[float], sizes: Sequence[int], *, gradient: bool = False
) -> tuple[Floats, list[Floats]]:
    """pi * (P squared)^T (1 / P pi) over the last axes (one per column), and its derivatives by each theta.

    0/0 counts as 0. Full-domain channels are symmetric, so no transpose is needed. O(columns x cells); the gradient
    costs 2 x columns as much.
    """
    if all(thetas[c] == 1.0 for c in columns) and not gradient:
        return (shares > 0).astype(np.float64), []
    maps = channels_of(columns, thetas, sizes)
    squares = squared(maps)
    released = apply_maps(maps, shares)
    reciprocal = np.divide(1.0, released, out=np.zeros_like(released), where=released > 0)
    value = shares * apply_maps(squares, reciprocal)
    slopes = []
    if gradient:
        for i, column in enumerate(columns):
            d_map, d_square = _derivatives(column, thetas, sizes)
            up = apply_maps([*squares[:i], d_square, *squares[i + 1 :]], reciprocal)
            moved = apply_maps([*maps[:i], d_map, *maps[i + 1 :]], shares)
            slopes.append(shares * (up - apply_maps(squares, moved * reciprocal**2)))
    return value, slopes


def reconstruction_bound(quasi_shares: Floats, log_odds: float) -> Floats:
    """An upper bound of eta that needs no tensor: pi e^E / (1 - pi + pi e^E), E = sum_i ln(p_i / q_i).

    Proof: P(b | gamma) >= e^-E P(b | alpha) for every gamma, so lambda_b >= P(b | alpha) (pi + (1 - pi) e^-E).
    """
    if math.isinf(log_odds):
        return np.ones_like(quasi_shares)
    lifted = quasi_shares * math.exp(log_odds)
    return lifted / (1.0 - quasi_shares + lifted)


def log_odds(columns: Sequence[int], thetas: Sequence[float], sizes: Sequence[int]) -> float:
    """E = sum_i ln(p_i / q_i) over the columns with more than one value."""
    return sum(epsilon(thetas[c], sizes[c]) for c in columns if sizes[c] > 1)


def quasi_reconstruction(v: View, thetas: Sequence[float]) -> Floats:
    """eta of every observed QI cell: exact with a grid, else the bound."""
    if v.grid is None:
        return reconstruction_bound(v.quasi_shares, log_odds(v.moving, thetas, v.sizes))
    if not v.moving:
        return np.ones(len(v.place))
    value, _ = reconstruction(v.grid, v.moving, thetas, v.sizes)
    return np.asarray(value[tuple(v.place.T)])


def paper_risk(v: View, thetas: Sequence[float]) -> Floats:
    """f * eta * rho of every observed QI cell and sensitive value, shape (K, S sizes...); 0 for absent values."""
    eta = quasi_reconstruction(v, thetas).reshape(-1, *[1] * len(v.sensitive))
    rho, _ = reconstruction(v.shares, v.sensitive, thetas, v.sizes)
    return v.conditional * eta * rho


def max_risk(all_views: Sequence[View], thetas: Sequence[float]) -> float:
    """The largest `paper_risk` of any view, inflated by the slack of floating point."""
    return max(float(paper_risk(v, thetas).max()) for v in all_views) * (1.0 + SLACK)


def infimum(all_views: Sequence[View], randomised: Sequence[bool]) -> float:
    """The limit of the largest risk when every randomised column loses all contrast; never reached."""
    return max_risk(all_views, [0.0 if r else 1.0 for r in randomised]) / (1.0 + SLACK)


def epsilon(theta: float, size: int) -> float:
    """ln(p / q), the local privacy loss of one column, as computed; `round_up` before it is stated."""
    if size == 1:
        return 0.0
    p = keep_of_theta(theta, size)
    q = (1.0 - p) / (size - 1)
    return math.inf if q <= 0 else max(0.0, math.log(p / q))


def round_up(loss: float, digits: int = 4) -> float:
    """The loss rounded up, with room for the error of the logarithm, so that a stated loss is never too small."""
    if math.isinf(loss):
        return math.inf
    unit = 10**digits
    return math.ceil(loss * (1.0 + 1e-12) * unit) / unit


# --- posteriors -------------------------------------------------------------------------------------------------------
# What three readers of a randomised release get, to be read beside `paper_risk`.
#
# Each is a probability to name a person's sensitive value. The shares f of a group remain learnable from any release
# whose estimates are consistent: that is a result of the release, not a failure of it.


def linking_posterior(v: View, thetas: Sequence[float]) -> Floats:
    """The mix of S a reader gets who weights the released rows by Pr(QI~ | QI of the target), per observed QI cell.

    Expectation over releases, S undone by its own inverse: keep = 1 gives f, keep = 1/d the marginal of S. Needs the
    grid.
    """
    if v.grid is None:
        raise ValueError("the linking posterior needs a grid of quasi-identifier cells")
    maps = channels_of(v.moving, thetas, v.sizes)
    s_axes = v.shares.shape[1:]
    flat = v.shares.reshape(len(v.shares), -1)
    out = np.empty_like(flat)
    den = np.asarray(apply_maps(maps, apply_maps(maps, v.grid))[tuple(v.place.T)])
    for u in range(flat.shape[1]):
        part = np.zeros_like(v.grid)
        np.add.at(part, tuple(v.place.T), flat[:, u])
        out[:, u] = apply_maps(maps, apply_maps(maps, part))[tuple(v.place.T)] / den
    return out.reshape(-1, *s_axes)


def record_posterior(v: View, thetas: Sequence[float]) -> float:
    """max Pr(S = u | S~ = w, QI) = f_u p_wu / sum_x f_x p_wx: a reader who located the released record."""
    if len(v.sensitive) != 1:
        raise ValueError("the record posterior is defined for one sensitive column")
    (s,) = v.sensitive
    d, theta, f = v.sizes[s], thetas[s], v.conditional
    if theta == 1.0:
        return 1.0
    q = (1.0 - theta) / d
    seen = theta * f + q  # Pr(S~ = w | QI)
    same = (theta + q) * f / seen  # u = w
    order = np.partition(f, f.shape[1] - 2, axis=1) if d > 1 else f
    best_other = np.where(f == order[:, -1:], order[:, -2:-1], order[:, -1:])
    other = q * best_other / seen  # the likeliest u other than w
    return float(max(same.max(), other.max()))
