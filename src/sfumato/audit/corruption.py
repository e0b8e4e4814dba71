"""The reader who knows the true values of everybody else.

Where a part (group, class, block) shows its true values, she takes the others' away. Where sub-tables are balanced, the
value that is one short among the others is the target's. Where records are independent, the others tell nothing.
"""

from __future__ import annotations

import numpy as np

from ..model.public import Codes, Floats
from ..stats.joint_codes import joint_ranks
from .attack import Attack, Background
from .view import ReleaseView


def _run(view: ReleaseView, known: Background) -> Codes | str:
    part = view.part
    if view.true_shown:  # classes are parts
        part, _ = joint_ranks([f.codes for f in view.quasi], view.rows)
        part = np.unique(part, return_inverse=True)[1].reshape(-1)
    elif view.release.method.part is None:  # every record by itself
        return np.argmax(view.prior * view.likelihood(known.rows), axis=1).astype(np.int32)
    values = len(view.values)
    members = np.zeros((int(part.max()) + 1, values))
    sure = known.others >= 0
    np.add.at(members, (part[sure], known.others[sure]), 1)
    guesses = np.zeros(len(known.rows), dtype=np.int32)
    for t, row in enumerate(known.rows):
        others = members[part[row]].copy()
        if known.others[row] >= 0:
            others[known.others[row]] -= 1
        guesses[t] = int(np.argmax(_belief(view, int(row), int(part[row]), part, others)))
    return guesses


def _belief(view: ReleaseView, row: int, number: int, part: np.typing.NDArray[np.int64], others: Floats) -> Floats:
    if view.true_shown:
        shown = np.bincount(view.shown[part == number], minlength=len(others))
        return np.asarray(shown - others)
    if view.release.method.withheld:
        return np.asarray(view.law.counts[number] - others)
    inside = view.law.counts[number] > 0
    inside |= others > 0
    short = others[inside].max() - others
    flat = inside & (short == 1)
    if flat.sum() == 1 and (short[inside] <= 1).all():  # balanced but for one record
        return flat.astype(float)
    own = view.law.chance(np.array([number]), view.shown[[row]])[0]
    return np.asarray((others + inside) * own)


ATTACK = Attack(
    name="corruption",
    reader="corruption",
    knows="the target's row, and the true value of every other record",
    covered=False,
    run=_run,
)
