"""How far an estimated contingency table lies from the true one, as the paper measures it.

Divisions by a true share or count run over the cells where it is positive only.
"""

from __future__ import annotations

import itertools

import numpy as np

from .kronecker import Floats


def kl_distance(true: Floats, estimated: Floats, *, mix: float = 0.0) -> float:
    """sum pi log(pi / est) over pi > 0, counts of one N or shares; infinite if an estimate there is not positive.

    `mix` > 0 first replaces the estimate by its positive part, rescaled and mixed with that share of a uniform table:
    a stated way to compare estimates that have empty cells.
    """
    pi, est = _shares(true, estimated)
    if mix > 0:
        est = np.maximum(est, 0.0)
        est = (1.0 - mix) * est / est.sum() + mix / est.size
    inside = pi > 0
    if np.any(est[inside] <= 0):
        return float("inf")
    return float((pi[inside] * (np.log(pi[inside]) - np.log(est[inside]))).sum())


def chi_square_distance(true: Floats, estimated: Floats) -> float:
    """sum (pi - est)^2 / pi over pi > 0."""
    pi, est = _shares(true, estimated)
    inside = pi > 0
    return float(((pi - est)[inside] ** 2 / pi[inside]).sum())


def euclidean_distance(true: Floats, estimated: Floats) -> float:
    """|pi - est| over all cells."""
    pi, est = _shares(true, estimated)
    return float(np.sqrt(((pi - est) ** 2).sum()))


def base_error(true: Floats, estimated: Floats) -> float:
    """Mean of |act - est| / act over the non-empty cells of the full table."""
    inside = true > 0
    return float((np.abs(true - estimated)[inside] / true[inside]).mean())


def cube_error(true: Floats, estimated: Floats) -> float:
    """Mean of |act - est| / act over the non-empty cells of all 2^axes group-bys, pooled."""
    total, cells = 0.0, 0
    for n in range(true.ndim + 1):
        for axes in itertools.combinations(range(true.ndim), n):
            act, est = np.asarray(true.sum(axis=axes)), np.asarray(estimated.sum(axis=axes))
            inside = act > 0
            total += float((np.abs(act - est)[inside] / act[inside]).sum())
            cells += int(inside.sum())
    return total / cells


def _shares(true: Floats, estimated: Floats) -> tuple[Floats, Floats]:
    rows = true.sum()
    return true / rows, estimated / rows
