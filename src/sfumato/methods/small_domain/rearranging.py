"""An order of groups in which groups that share values stand close together (docs/explanation/small-domain.md, 3.3).

Reverse Cuthill-McKee on the graph whose edges join groups with a common value. Library routines break ties as
they like and can give much worse plans (and not the paper's example), so every tie is fixed here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .balancing import Group


def candidate_orders(groups: Sequence[Group]) -> list[list[int]]:
    """Orders worth merging along: two reverse Cuthill-McKee orders, then the order as it is; no repeats."""
    adjacent = _sharing(groups)
    orders = [_reverse_cuthill_mckee(adjacent, highest=flag) for flag in (True, False)]
    orders.append(list(range(len(groups))))
    return [order for at, order in enumerate(orders) if order not in orders[:at]]


def _sharing(groups: Sequence[Group]) -> NDArray[np.bool_]:
    """adjacent[i, j]: groups i and j differ and have a value in common."""
    values = np.concatenate([g.values for g in groups])
    rows = np.repeat(np.arange(len(groups)), [g.values.size for g in groups])
    holds = csr_array((np.ones(values.size), (rows, values)), shape=(len(groups), int(values.max()) + 1))
    adjacent: NDArray[np.bool_] = (holds @ holds.T).toarray() > 0
    np.fill_diagonal(adjacent, val=False)
    return adjacent


def _reverse_cuthill_mckee(adjacent: NDArray[np.bool_], *, highest: bool) -> list[int]:
    """Breadth first from a node of least degree (equal degrees: highest or lowest index), reversed."""
    degree = adjacent.sum(axis=1)
    index = np.arange(degree.size)
    unseen = np.ones(degree.size, dtype=bool)
    order: list[int] = []
    for start in np.lexsort((-index if highest else index, degree)).tolist():
        if not unseen[start]:
            continue
        unseen[start] = False
        at = len(order)
        order.append(start)
        while at < len(order):
            neighbours = np.flatnonzero(adjacent[order[at]] & unseen)
            unseen[neighbours] = False
            order.extend(neighbours[np.argsort(degree[neighbours], kind="stable")].tolist())
            at += 1
    return order[::-1]
