"""The reader who knows how a method chooses what it publishes of a group, and asks which groups can have led to it."""

from __future__ import annotations

import numpy as np

from ..model.public import Codes
from .attack import Attack, Background
from .view import ReleaseView


def _run(view: ReleaseView, known: Background) -> Codes | str:
    knowing = view.law.knowing
    if knowing is None:
        return "about methods that choose what they publish of a group only"
    groups = view.part[known.rows].tolist()
    best = {group: knowing(group, view.prior) for group in dict.fromkeys(groups)}
    return np.array([best[group] for group in groups], dtype=np.int32)


ATTACK = Attack(
    name="algorithm-aware",
    reader="algorithm",
    knows="the target's group, the histogram, and how blocks are chosen",
    covered=False,
    run=_run,
)
