"""M of a release, and the directions that it identifies: what a weight of values becomes in the mean over groups.

With B[g, u] = 1/sqrt|g| where group g holds u, and F_u groups that hold u, M = F^-1 B'B is similar to the symmetric
S = F^-1/2 B'B F^-1/2, whose large eigenvalues tell which directions the release identifies. docs/explanation/anatomy.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy import linalg as sl
from scipy import sparse as sp

from ...model.public import Floats, Integers
from .held_values import Groups

SINGULAR = 1e-6  # share of the largest eigenvalue below which a direction is not identified


class MeanShares(Protocol):
    """M over the values that there are; rows of the arguments are functions of these values."""

    def mean(self, w: Floats) -> Floats:
        """M w for each row of w."""

    def solve(self, x: Floats) -> Floats:
        """S^-1 x for each row of x, on the directions that are identified."""


def mean_shares(groups: Groups, present: Integers, true_counts: Integers) -> MeanShares:
    """M of the groups; the cheaper form of it, by values or by groups."""
    if len(groups) < len(present):
        return _ByGroups(groups, present, true_counts)
    return _ByValues(groups, present, true_counts)


class _ByValues:
    """M as a square of numbers for the values."""

    def __init__(self, groups: Groups, present: Integers, true_counts: Integers) -> None:
        C = groups.together[np.ix_(present, present)]
        self._M = C / true_counts[:, None]
        root = np.sqrt(true_counts.astype(float))
        self._inverse = _inverted(C / root[:, None] / root[None, :])

    def mean(self, w: Floats) -> Floats:
        return w @ self._M.T

    def solve(self, x: Floats) -> Floats:
        return x @ self._inverse


class _ByGroups:
    """Fewer groups than values: S = N'N has the eigenvalues of G = N N' = U L U', and S^-1 = N' G^-2 N.

    G^-2 = U L^-2 U' on the directions that are identified. Where all are, which is the rule, G is factorised as
    a triangle by its transpose instead.
    """

    def __init__(self, groups: Groups, present: Integers, true_counts: Integers) -> None:
        place = np.full(groups.values + 1, -1)
        place[present] = np.arange(len(present))
        column = place[groups.members]
        there = column >= 0
        row = np.broadcast_to(np.arange(len(groups)), there.shape)[there]
        self._B = sp.csr_array(
            (1 / np.sqrt(groups.sizes[row].astype(float)), (row, column[there])), shape=(len(groups), len(present))
        )
        self._N = sp.csr_array(self._B / np.sqrt(true_counts))
        self._true_counts = true_counts
        self._twice = _inverted_twice(np.asarray((self._N @ self._N.T).toarray(), dtype=float))

    def mean(self, w: Floats) -> Floats:
        found: Floats = np.asarray(self._B.T @ np.asarray(self._B @ w.T)).T / self._true_counts
        return found

    def solve(self, x: Floats) -> Floats:
        found: Floats = np.asarray(self._N.T @ self._twice(np.asarray(self._N @ x.T))).T
        return found


def _inverted(S: Floats) -> Floats:
    """S^-1 on the directions that are identified; where all are, which is the rule, as any matrix is inverted.

    After an eigen-decomposition of more than some 20 values OpenBLAS keeps a core busy for 0.1 s, waiting for more.
    """
    if _all_identified(S):
        inverse = np.linalg.inv(S)
        return np.asarray((inverse + inverse.T) / 2)
    eigen, vectors = np.linalg.eigh(S)
    keep = _identified(eigen)
    return np.asarray((vectors[:, keep] / eigen[keep]) @ vectors[:, keep].T)


def _inverted_twice(G: Floats) -> Callable[[Floats], Floats]:
    """G^-2 y of columns y, on the directions that are identified."""
    if _all_identified(G):
        factor = sl.cho_factor(G)
        return lambda y: np.asarray(sl.cho_solve(factor, sl.cho_solve(factor, y)))
    eigen, vectors = np.linalg.eigh(G)
    keep = _identified(eigen)
    root = vectors[:, keep] / eigen[keep]
    return lambda y: root @ (root.T @ y)


def _all_identified(G: Floats) -> bool:
    """Whether certainly all eigenvalues are: what is left of G without the share of a bound on the largest of them, its
    largest sum of a row, is positive definite if and only if all are above that share."""
    share = SINGULAR * max(float(np.abs(G).sum(axis=1).max(initial=0.0)), SINGULAR)
    try:
        np.linalg.cholesky(G - share * np.eye(len(G)))
    except np.linalg.LinAlgError:
        return False
    return True


def _identified(eigen: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the ascending eigenvalues are not 0 but for rounding."""
    return eigen > SINGULAR * max(float(eigen[-1]), SINGULAR) if len(eigen) else np.zeros(0, dtype=bool)
