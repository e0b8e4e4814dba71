"""Counts of some units that are added up from a count of more: what counting them would give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.release.opened import open_folder
from tables import people

ROLES = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")


def _sorted(found: tuple[np.ndarray, ...]) -> list[tuple[int, ...]]:
    parts, codes, counts = found
    return sorted(map(tuple, np.column_stack([parts, codes, counts]).tolist()))


@pytest.mark.parametrize("units", [(0,), (1,), (2,), (2, 0), (1, 2)])
def test_the_same_as_counted_alone(units: tuple[int, ...], tmp_path: Path) -> None:
    method = sfumato.RandomizedResponse(scope="both", keep={"age": "0.5", "sex": "0.8", "disease": "0.6"})
    sfumato.publish(people(), tmp_path / "out", roles=ROLES, method=method, seed=1)
    alone, beside = (open_folder(tmp_path / "out").evidence for _ in range(2))
    assert len(beside.totals((0, 1, 2))[2]) > 100
    assert _sorted(beside.totals(units)) == _sorted(alone.totals(units))
