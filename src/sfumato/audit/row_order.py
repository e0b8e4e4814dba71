"""The reader who hopes that the file kept the table's order: neighbours in the file would then be alike."""

from __future__ import annotations

import numpy as np

from ..model.public import Codes
from .attack import Attack, Background
from .view import ReleaseView

REACH = 10  # rows on both sides


def _run(view: ReleaseView, known: Background) -> Codes | str:
    guesses = np.zeros(len(known.rows), dtype=np.int32)
    for t, row in enumerate(known.rows):
        near = np.arange(max(0, row - REACH), min(view.rows, row + REACH + 1))
        near = near[near != row]
        belief = view.prior * view.likelihood(near)
        total = np.maximum(belief.sum(axis=1, keepdims=True), 1e-300)
        guesses[t] = int(np.argmax((belief / total).sum(axis=0)))
    return guesses


ATTACK = Attack(
    name="order of the rows",
    reader="order",
    knows="the place of the target's row in the file, and not what it shows",
    covered=True,
    run=_run,
)
