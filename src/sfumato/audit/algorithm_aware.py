"""The reader who knows how target-distribution chooses its blocks, and asks which groups can have led to them."""

from __future__ import annotations

import numpy as np

from ..methods.target_distribution.group_audit import audit_group
from ..methods.target_distribution.method import TargetDistributionPlan
from ..model.public import Codes
from .attack import Attack, Background
from .view import ReleaseView

MOST_BLOCKS = 200  # of a group whose exact posterior is computed; larger ones are read as they stand


def _run(view: ReleaseView, known: Background) -> Codes | str:
    plan = view.release.plan
    if not isinstance(plan, TargetDistributionPlan):
        return "about target-distribution only"
    side = view.release.evidence.side
    tree = plan.tree
    guesses = np.zeros(len(known.rows), dtype=np.int32)
    best: dict[int, int] = {}
    for t, row in enumerate(known.rows):
        group = int(view.part[row])
        if group not in best:
            blocks = np.zeros(tree.nodes, dtype=np.int64)
            mine = np.asarray(side["group_id"]) == group
            np.add.at(blocks, np.asarray(side["block"])[mine], np.asarray(side["count"])[mine])
            best[group] = _best(view, plan, group, blocks)
        guesses[t] = best[group]
    return guesses


def _best(view: ReleaseView, plan: TargetDistributionPlan, group: int, blocks: np.typing.NDArray[np.int64]) -> int:
    tree, order = plan.tree, np.array(plan.order)
    weights = np.array(plan.parts[plan.group_part[group]].weights, dtype=np.int64)
    if blocks.sum() <= MOST_BLOCKS:
        found = audit_group(tree, weights, blocks, np.maximum(view.prior[order], 1e-9).tolist())
        if found is not None:
            return int(order[int(np.argmax([float(p) for p in found.posterior]))])
    return int(np.argmax(view.law.counts[group]))


ATTACK = Attack(
    name="algorithm-aware",
    reader="algorithm",
    knows="the target's group, the histogram, and how blocks are chosen",
    covered=False,
    run=_run,
)
