"""The reader who hopes that the file kept the table's order: neighbours in the file would then be alike.

How far alike she finds out from the release: the reach is taken whose neighbours foretell best what a row shows.
"""

from __future__ import annotations

import numpy as np

from ..model.public import Codes, Floats, Integers
from .attack import Attack, Background
from .naive_bayes import normalised
from .view import ReleaseView

REACHES = (1, 3, 10, 50)  # rows on both sides
LOOKED_AT = 500  # rows by which a reach is chosen


def _run(view: ReleaseView, known: Background) -> Codes | str:
    sample = np.unique(np.linspace(0, view.rows - 1, LOOKED_AT).astype(np.int64))
    own = view.likelihood(sample)
    foretold = [np.log(np.maximum((_belief(view, sample, r) * own).sum(axis=1), 1e-12)).sum() for r in REACHES]
    reach = REACHES[int(np.argmax(foretold))]
    return np.argmax(_belief(view, known.rows, reach), axis=1).astype(np.int32)


def _belief(view: ReleaseView, rows: Integers, reach: int) -> Floats:
    """(rows, values): as if the neighbours of a row had its value; what the row shows itself is not looked at."""
    steps = np.array([s for s in range(-reach, reach + 1) if s])
    near = rows[:, None] + steps
    there = (near >= 0) & (near < view.rows)
    needed, place = np.unique(np.where(there, near, 0), return_inverse=True)
    logs = np.log(np.maximum(view.likelihood(needed), 1e-12))
    place = place.reshape(near.shape)
    total = np.tile(np.log(np.maximum(view.prior, 1e-12)), (len(rows), 1))
    for j in range(len(steps)):
        total += np.where(there[:, j, None], logs[place[:, j]], 0.0)
    return normalised(total)


ATTACK = Attack(
    name="order of the rows",
    reader="order",
    knows="the place of the target's row in the file, and not what it shows",
    covered=True,
    run=_run,
)
