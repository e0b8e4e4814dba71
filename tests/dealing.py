"""Labels of a deal handed out batch by batch, as publishing does it."""

from __future__ import annotations

import numpy as np

from sfumato.stats.shuffling import Splitter, hand_out


class Dealer:
    """`deal` gives a label to every record of the next batch; `close` checks that all are out."""

    def __init__(self, deal, rng: np.random.Generator) -> None:
        self._splitter, self._values = Splitter(deal, rng), len(deal.start) - 1

    def deal(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        share = self._splitter.split(np.bincount(codes, minlength=self._values), rng)
        return hand_out(share, codes, rng)

    def close(self) -> None:
        self._splitter.close()
