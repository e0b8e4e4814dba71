"""A person with three rows and one value: what each row shows is put together."""

from __future__ import annotations

import numpy as np

from ..model.public import Codes
from .attack import Attack, Background
from .view import ReleaseView


def _run(view: ReleaseView, known: Background) -> Codes | str:
    if view.true_shown:
        return "rows show true values; linking is the attack"
    with np.errstate(divide="ignore"):
        logs = np.tile(np.log(view.prior), (len(known.persons), 1))
        for k in range(known.persons.shape[1]):
            logs += np.log(view.likelihood(known.persons[:, k]))
    return np.argmax(np.where(np.isnan(logs), -np.inf, logs), axis=1).astype(np.int32)


ATTACK = Attack(
    name="several rows of a person",
    reader="person",
    knows="three rows of one person, whose sensitive value is the same in all",
    covered=False,
    run=_run,
)
