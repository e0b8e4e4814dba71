"""The reader of the promise: she knows the target's row, has the histogram for a prior, and looks at what it shows."""

from __future__ import annotations

import numpy as np

from ..model.public import Codes
from .attack import Attack, Background
from .view import ReleaseView


def _run(view: ReleaseView, known: Background) -> Codes | str:
    if view.true_shown:
        return "rows show true values; linking is the attack"
    return np.argmax(view.prior * view.likelihood(known.rows), axis=1).astype(np.int32)


ATTACK = Attack(
    name="record posterior",
    reader="histogram",
    knows="the target's row, and the histogram of the sensitive column",
    covered=True,
    run=_run,
)
