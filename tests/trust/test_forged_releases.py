"""`verify` on releases of which one parameter was bent, for every method; other forgeries are in test_forgeries.py."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from forging import forged, verified
from sfumato.errors import ReleaseError, VerificationError
from sfumato.methods import REGISTRY
from sfumato.query import open_release

REFUSED = (VerificationError, ReleaseError)

# Parameters that describe how a release was made and that nothing promised, and no answer, rests on.
DESCRIBED = {
    "anatomy": {"grouping", "suppressed"},
    "l-diversity": {"suppressed"},
    "randomized-response": {"intervals"},
    "target-distribution": {"hierarchy", "target_by", "fakes", "randomise_depth"},
}  # fmt: skip


LONGER = {"sets": [[0, 1]]}  # what an empty list becomes, where its entries are promised something


def bent(value: Any) -> Any:
    """Another value of the same kind: a number a little off, a list or table one shorter."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return value[:-1]
    if value is None:
        return 0
    if isinstance(value, dict):
        *others, last = value.items()
        return dict(others) if last[1] else {key: bent(inner) for key, inner in others} | dict([last])
    try:
        return str(Fraction(value) * Fraction(9, 10) or Fraction(1, 10))
    except ValueError:
        return f"{value}x"


@pytest.mark.parametrize("name", list(REGISTRY))
def test_no_parameter_can_be_bent(name: str, honest_releases: dict[str, Path], tmp_path: Path) -> None:
    """One parameter at a time, the guarantee left as it was stated."""
    manifest = open_release(honest_releases[name]).manifest
    parameters = [(part, key) for part in ("parameters", "law") for key in getattr(manifest, part)]
    accepted = set()
    for part, key in parameters:

        def bend(stated: dict[str, Any], part: str = part, key: str = key) -> None:
            value = stated[part][key]
            stated[part][key] = LONGER[key] if value == [] and key in LONGER else bent(value)

        try:
            verified(forged(honest_releases[name], tmp_path / part / key, manifest=bend))
        except REFUSED:
            continue
        accepted.add(key)
    assert accepted == DESCRIBED.get(name, set()) & {key for _, key in parameters}
