"""The reader who knows that sub-tables are balanced: inside one, all values are equally likely beforehand."""

from __future__ import annotations

import numpy as np

from ..model.public import Codes
from .attack import Attack, Background
from .view import ReleaseView


def _run(view: ReleaseView, known: Background) -> Codes | str:
    if view.release.method.withheld or view.release.method.part is None:
        return "about methods with published sub-tables only"
    own = view.law.chance(view.part[known.rows], view.shown[known.rows])
    return np.argmax(own, axis=1).astype(np.int32)


ATTACK = Attack(
    name="joint posterior of a sub-table",
    reader="composition of a part",
    knows="the target's row, and that its sub-table is flat",
    covered=False,
    run=_run,
)
