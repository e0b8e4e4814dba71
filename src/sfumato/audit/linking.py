"""The reader who knows a person's quasi-identifiers: she finds the rows that may be hers, and sharpens her prior.

How quasi-identifiers go with the value she learns from the release itself (`naive_bayes`).
"""

from __future__ import annotations

import numpy as np

from ..model.public import Codes
from .attack import Attack, Background
from .naive_bayes import learn, normalised
from .view import ReleaseView


def _run(view: ReleaseView, known: Background) -> Codes | str:
    if not view.quasi:
        return "no column is called a quasi-identifier"
    model = None if view.true_shown else learn(view, np.random.default_rng(1))
    guesses = np.zeros(len(known.cells), dtype=np.int32)
    for t, (rows, weight) in enumerate(view.candidates(known.cells)):
        if not len(rows) or weight.sum() <= 0:
            guesses[t] = int(np.argmax(view.prior))
            continue
        if view.true_shown:
            guesses[t] = int(np.argmax(np.bincount(view.shown[rows], weights=weight, minlength=len(view.values))))
            continue
        assert model is not None
        most = rows if len(rows) <= 5000 else rows[np.argsort(-weight)[:5000]]
        share = weight if len(rows) <= 5000 else np.sort(weight)[::-1][:5000]
        prior = model.log_prior(known.cells[t][None, :])
        belief = normalised(prior + np.log(np.maximum(view.likelihood(most), 1e-300)))
        guesses[t] = int(np.argmax(share @ belief))
    return guesses


ATTACK = Attack(
    name="linking",
    reader="linking",
    knows="the target's quasi-identifiers; how they go with the value is learnt from the release",
    covered=False,
    run=_run,
)
