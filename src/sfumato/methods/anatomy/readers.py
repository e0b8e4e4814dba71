"""How far readers of anatomy's groups get: every value of a group is held by one of its members."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from ...model.private import Known
from ...model.public import Claim, ReaderBound
from ..shared.readers import Found, in_parts, linked

MOST = 200_000_000  # groups with different values, times quasi-identifier cells


def readers(l: int, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder. A record of value x is in each of the n_x groups that hold x with chance 1 / n_x, so that with the
    true histogram as prior the values of a group are equally likely."""
    least = l if known is None else _smallest(known)
    mine = Found(posterior=Fraction(1, least), why="the values of a group are equally likely, and it holds l or more")
    linking = linked(
        known, "prior: the share among the rows with the same quasi-identifiers; she sees the group's values", _linking
    )
    last = "whoever knows all members of a group but one knows the last"
    return in_parts(claim, histogram=mine, linking=linking, corruption=last)


def _smallest(known: Known) -> int:
    """Values of the smallest group that holds a looked-at value."""
    group, code = known.work.side["group_id"], known.work.side["unit0"]
    looked = known.joint.codes[known.looked, 0]
    return int(np.bincount(group)[group[np.isin(code, looked)]].min())


def _linking(known: Known) -> float | None:
    """max over cells c, groups g and values x of both: (c_x / n_x) / sum over y in g of c_y / n_y."""
    joint = known.joint
    groups = _distinct_groups(known)
    weight = joint.true_counts / joint.of_values()[joint.value]
    table = csr_array((weight, (joint.cell, joint.value)), shape=(joint.cells, len(joint.codes)))
    if groups.shape[0] * joint.cells > MOST:
        return None
    largest = 0.0
    for cell in range(joint.cells):
        entry = slice(table.indptr[cell], table.indptr[cell + 1])
        values, own = table.indices[entry], table.data[entry]
        inside = groups[:, values]
        for x in np.flatnonzero(known.looked[values]):
            together = inside[inside[:, x]] @ own
            if len(together):
                largest = max(largest, float(own[x] / together.min()))
    return largest


def _distinct_groups(known: Known) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Which values the groups hold, each combination once: (combinations, values that occur)."""
    joint = known.joint
    place = np.full(len(known.profile.domains[0]), -1)
    place[joint.codes[:, 0]] = np.arange(len(joint.codes))
    group = known.work.side["group_id"].astype(np.int64)
    held = np.zeros((int(group.max()) + 1, len(joint.codes)), dtype=bool)
    held[group, place[known.work.side["unit0"]]] = True
    return np.unique(held, axis=0)
