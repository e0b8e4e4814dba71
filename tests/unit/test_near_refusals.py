"""A fit that other releases of the same table would refuse says so, with the names of what is hardly known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS, SILENT
from sfumato.analysis import newton
from sfumato.analysis.fit import plain_name
from sfumato.errors import UnsupportedQuery

ROWS = 6_000
EXACT = {*SILENT, "l-diversity"}  # nothing to tell, or s as it was


@pytest.mark.parametrize("method", [name for name in METHODS if name not in EXACT])
def test_a_fit_near_the_least_information_says_of_what(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both limits are moved to where a fit of this release lies: below one it is said, below the other refused."""
    rng = np.random.default_rng(4)
    s = rng.integers(0, 4, ROWS)
    g = np.where(rng.random(ROWS) < 0.5, "a", "b")
    rows = pa.table({"s": pa.array(s, pa.int32()), "g": g, "y": s + rng.normal(size=ROWS)})
    roles = sf.Roles(sensitive="s", quasi=["g"], insensitive=["y"])
    release = sf.publish(rows, roles=roles, method=METHODS[method], seed=2, accept_unprotected=True)
    monkeypatch.setattr(newton, "LEAST_RATIO", 0.0)
    monkeypatch.setattr(newton, "NEAR_RATIO", 0.0)
    found = release.fit("y ~ s + C(g)")
    assert not [c for c in found.caveats if "little information" in c]
    ratio = float(found.information["s"])
    assert np.isfinite(ratio)
    monkeypatch.setattr(newton, "NEAR_RATIO", ratio + 1e-6)
    (near,) = [c for c in release.fit("y ~ s + C(g)").caveats if "little information" in c]
    named = [plain_name(name) for name, known in found.information.items() if known <= ratio]
    assert near.startswith(f"little information about {', '.join(named)}: other releases")
    assert near in str(release.fit("y ~ s + C(g)"))
    monkeypatch.setattr(newton, "LEAST_RATIO", ratio + 1e-6)
    with pytest.raises(UnsupportedQuery, match="too little information about"):
        release.fit("y ~ s + C(g)")


def test_the_limits_as_they_are() -> None:
    """The fewer the rows, the less is known: a fit is answered, answered with the word, then refused."""
    rng = np.random.default_rng(6)
    kinds = []
    for rows in (40_000, 4_000, 200):
        s = rng.integers(0, 4, rows)
        people = pa.table({"s": pa.array(s, pa.int32()), "y": s + rng.normal(size=rows)})
        roles = sf.Roles(sensitive="s", insensitive=["y"])
        method = sf.RandomizedResponse(scope="s", keep={"s": 0.3})
        release = sf.publish(people, roles=roles, method=method, seed=2, accept_unprotected=True)
        try:
            fit = release.fit("y ~ s")
        except UnsupportedQuery:
            kinds.append("refused")
            continue
        least = float(fit.information.min())
        assert ("little information" in str(fit)) == (least < newton.LEAST_RATIO + 3)
        kinds.append("said" if "little information" in str(fit) else "silent")
    assert kinds == ["silent", "said", "refused"]
