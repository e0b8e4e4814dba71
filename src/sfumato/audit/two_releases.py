"""Two releases of one table: what both show about a record is put together."""

from __future__ import annotations

import numpy as np

from ..model.public import Codes
from .attack import Attack, Background
from .view import ReleaseView


def _run(view: ReleaseView, known: Background) -> Codes | str:
    if known.second is None or known.second_rows is None:
        return "needs another release of the table (--second)"
    if view.true_shown or known.second.true_shown:
        return "rows show true values; linking is the attack"
    if known.second.values != view.values:
        return "the second release has another domain"
    both = view.likelihood(known.rows) * known.second.likelihood(known.second_rows)
    return np.argmax(view.prior * both, axis=1).astype(np.int32)


ATTACK = Attack(
    name="two releases",
    reader="composition",
    knows="the target's row in this release and in another of the same table",
    covered=False,
    run=_run,
)
