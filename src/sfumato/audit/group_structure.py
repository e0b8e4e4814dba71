"""The de Finetti attack [Kifer 2009] on groups: values and rows of all groups teach how columns go with the value.

Inside a group every value belongs to one member, so beliefs are scaled to a doubly stochastic table (Sinkhorn).
"""

from __future__ import annotations

import numpy as np

from ..model.public import Codes, Floats, Integers
from .attack import Attack, Background
from .naive_bayes import adder, learn, normalised, published_cells
from .view import ReleaseView

SCALINGS = 10
MOST_CELLS = 40_000_000  # rows times values


def _run(view: ReleaseView, known: Background) -> Codes | str:
    if not view.release.method.withheld or view.release.method.part is None:
        return "about methods that publish values by group only"
    if not view.quasi:
        return "no column is called a quasi-identifier"
    if view.rows * len(view.values) > MOST_CELLS:
        return "more than 40 million cells"
    held_by = adder(view.part, len(view.law.counts))

    def constrain(rows: Integers, belief: Floats) -> Floats:  # rows are all rows
        part = view.part[rows]
        for _ in range(SCALINGS):
            held = held_by(belief)
            scale = np.divide(view.law.counts, held, out=np.zeros_like(held), where=held > 0)
            belief = belief * scale[part]
            belief = belief / np.maximum(belief.sum(axis=1, keepdims=True), 1e-300)
        return belief

    model = learn(view, np.random.default_rng(2), constrain, whole=True)
    rows = np.arange(view.rows)
    evidence = np.log(np.maximum(view.likelihood(rows), 1e-12))
    belief = constrain(rows, normalised(model.log_prior(published_cells(view, rows)) + evidence))
    return np.argmax(belief[known.rows], axis=1).astype(np.int32)


ATTACK = Attack(
    name="group structure (de Finetti)",
    reader="group structure",
    knows="the target's row; how columns go with the value is learnt from all groups",
    covered=False,
    run=_run,
)
