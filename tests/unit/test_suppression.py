"""Rows that stay, cell by cell."""

from __future__ import annotations

import numpy as np

from sfumato.laws.classes import Keeper


def test_rows_follow_their_cells_and_unknown_cells_go() -> None:
    rng = np.random.default_rng(1)
    cells = np.unique(rng.integers(0, 6, (40, 3)), axis=0)
    where = rng.integers(0, 5, len(cells))
    good = np.array([True, False, True, True, False])
    keeper = Keeper.of(cells, where, good)
    stays = {tuple(c): bool(good[w]) for c, w in zip(cells.tolist(), where, strict=True)}
    rows = rng.integers(0, 8, (2000, 3)).astype(np.int32)
    expected = [stays.get(tuple(r), False) for r in rows.tolist()]
    assert keeper(list(rows.T)).tolist() == expected
    one = Keeper.of(cells[:, :1], where, np.ones(5, dtype=bool))
    assert one([np.array([0, 7], dtype=np.int32)]).tolist() == [True, False]
