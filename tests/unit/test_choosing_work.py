"""What choosing tells meanwhile: a bar that moves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.choosing.compare import compare
from sfumato.choosing.recommend import recommend
from sfumato.methods import REGISTRY

ROLES = sf.Roles(sensitive="disease", quasi=("age", "sex"))


def table() -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table({name: rng.integers(0, n, 2_000) for name, n in (("age", 6), ("sex", 2), ("disease", 10))})


def test_the_bar_names_the_method_and_moves_with_every_release() -> None:
    told: list[tuple[str, int, int]] = []
    compare(
        table(),
        roles=ROLES,
        bound="1/3",
        releases=3,
        methods=["uniform", "splu"],
        seed=1,
        progress=lambda *step: told.append(step),
    )
    assert told[0] == ("compare, reading the table", 0, 200)
    assert [stage for stage, _, _ in told[1:-1]] == ["compare, uniform"] * 5 + ["compare, splu"] * 5
    assert [done for _, done, _ in told[1:]] == [0, 25, 50, 75, 100, 100, 125, 150, 175, 200, 200]


def test_recommend_names_the_method() -> None:
    told: list[str] = []
    recommend(table(), roles=ROLES, bound="1/3", seed=1, progress=lambda stage, *_: told.append(stage))
    assert told == ["recommend, reading the table", *(f"recommend, {name}" for name in REGISTRY)]
