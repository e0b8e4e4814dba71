"""Checks of an anatomy release, whose values are looked at piece by piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.errors import VerificationError
from sfumato.laws.groups import DistinctGroups
from sfumato.model.public import Published
from tables import people


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    out: Path = tmp_path_factory.mktemp("anatomy") / "release"
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")
    return sfumato.publish(people(), out, roles=roles, method=sfumato.Anatomy(l=2), seed=1).opened.published


def test_every_neighbour_is_looked_at(published: Published) -> None:
    side = published.evidence.side
    law = DistinctGroups(l=2, groups=int(side["group_id"].max()) + 1)
    law.check(published)
    code = side["unit0"]
    for at in np.flatnonzero(np.diff(side["group_id"]) == 0)[:12]:  # neighbours in one group
        kept = code[at : at + 2].copy()
        for forged, message in ((kept[::-1], "not in the order"), (kept[[0, 0]], "a value twice")):
            code[at : at + 2] = forged
            with pytest.raises(VerificationError, match=message):
                law.check(published)
        code[at : at + 2] = kept
