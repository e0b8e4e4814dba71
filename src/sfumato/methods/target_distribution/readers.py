"""How far readers of blurred groups get: a row is one of its group's blocks, and inside a block the prior decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from ...model.private import Known
from ...model.public import Claim, Evidence, Floats, ReaderBound
from ...stats.joint_codes import sum_by_group
from ..shared.readers import Found, in_parts, linked
from .group_audit import audit_group
from .target_planning import Made

if TYPE_CHECKING:
    from .method import TargetDistributionPlan

LAST = "whoever knows the other rows of a group is left with the blocks that they do not fill"
MOST = 200_000_000
MOST_BLOCKS = 200  # of a group whose exact posterior is computed; larger ones are read as they stand


def readers(claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder; the blocks of the groups are private knowledge here only because a plan does not state them."""
    mine = Found(
        posterior=None if known is None else _histogram(known),
        why="the blocks of the groups decide" if known is None else "every block of a group is as likely the record's",
    )
    linking = linked(
        known, "prior: the share among the rows with the same quasi-identifiers, inside each block", _linking
    )
    return in_parts(claim, histogram=mine, linking=linking, corruption=LAST)


def _blocks(made: Made, values: int) -> tuple[csr_array, csr_array]:
    """(groups by nodes: share of a group's blocks, nodes by values: whether a block holds a value)."""
    tree = made.shape.tree
    size = np.bincount(made.group, weights=made.count)
    share = csr_array(
        (made.count / size[made.group], (made.group, made.node)), shape=(len(made.group_rows), tree.nodes)
    )
    width = tree.stop - tree.start
    ends = np.concatenate([[0], np.cumsum(width)])
    leaf = np.arange(ends[-1]) - np.repeat(ends[:-1] - tree.start, width)
    held = np.asarray(made.shape.order)[leaf]
    return share, csr_array((np.ones(len(held)), held, ends), shape=(tree.nodes, values))


def _histogram(known: Known) -> float:
    """max over groups and values x of sum over blocks b of the group: (share of b) f_x / f(b)."""
    made: Made = known.work.secret
    prior = np.zeros(len(known.profile.domains[0]))
    prior[known.joint.codes[:, 0]] = known.joint.of_values()
    share, inside = _blocks(made, len(prior))
    reached = (share @ _spread(inside, prior)).toarray()
    return float(reached[:, known.joint.codes[known.looked, 0]].max())


def _linking(known: Known) -> float | None:
    """The same with the prior of every cell; blocks that hold no value of the cell are ruled out."""
    made, joint = known.work.secret, known.joint
    domain = len(known.profile.domains[0])
    if 1 not in joint.looked_at and len(known.profile.domains) > 1:
        return None  # groups are made of columns that are no quasi-identifiers
    share, inside = _blocks(made, domain)
    if joint.cells * inside.shape[0] > MOST:
        return None
    group = made.group_of[joint.looked_at[1]] if 1 in joint.looked_at else np.zeros(len(joint.cell), dtype=np.int64)
    looked = np.zeros(domain, dtype=bool)
    looked[joint.codes[known.looked, 0]] = True
    table = csr_array((joint.true_counts, (joint.cell, joint.codes[joint.value, 0])), shape=(joint.cells, domain))
    of_cell = np.zeros(joint.cells, dtype=np.int64)
    of_cell[joint.cell] = group
    largest = 0.0
    for cell in range(joint.cells):
        prior = table[[cell]].toarray()[0]
        mine = share[[int(of_cell[cell])]].toarray()[0]
        possible = mine * (inside @ prior > 0)
        reached = _spread(inside, prior).T @ (possible / possible.sum())
        largest = max(largest, float(reached[looked].max()))
    return largest


def _spread(inside: csr_array, prior: Floats) -> csr_array:
    """f_x / f(b) for every block b and value x in it."""
    mass, held = np.repeat(inside @ prior, np.diff(inside.indptr)), prior[inside.indices]
    share = np.divide(held, mass, out=np.zeros(len(held)), where=mass > 0)
    return csr_array((share, inside.indices, inside.indptr), shape=inside.shape)


def knowing(plan: TargetDistributionPlan, evidence: Evidence, counts: Floats) -> Callable[[int, Floats], int]:
    """The likeliest value of a row of a group, to a reader who knows how blocks are chosen."""
    tree, order = plan.tree, np.array(plan.order)
    of_group, block, count = (np.asarray(evidence.side[name]) for name in ("group_id", "block", "count"))

    def likeliest(group: int, prior: Floats) -> int:
        blocks = sum_by_group(count[of_group == group], block[of_group == group], tree.nodes)
        if blocks.sum() <= MOST_BLOCKS:
            weights = np.array(plan.parts[plan.group_part[group]].weights, dtype=np.int64)
            found = audit_group(tree, weights, blocks, np.maximum(prior[order], 1e-9).tolist())
            if found is not None:
                return int(order[int(np.argmax([float(p) for p in found.posterior]))])
        return int(np.argmax(counts[group]))

    return likeliest
