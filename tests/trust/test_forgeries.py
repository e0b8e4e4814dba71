"""Every kind of forgery on a release of every method: caught wherever the bundle can show it, and said where it cannot.

False-alarm probability: `verify` uses 1e-9 for each family of tests; releases here are made with fixed seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from forgeries import CAUGHT, KINDS, RELEASES, ROLES, UNSEEN
from forging import forged, verified
from frozen.recording import compare
from sfumato.errors import ReleaseError, VerificationError
from sfumato.methods import REGISTRY
from sfumato.query import open_release
from sfumato.release.verify import unseen


def test_there_are_forty_kinds() -> None:
    assert len(KINDS) >= 40
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert ROLES


def test_the_page_shows_every_kind_and_method() -> None:
    """docs/forgeries.md is what `python tools/build_forgery_table.py` prints; its marks are held by the test below."""
    page = (Path(__file__).parents[2] / "docs" / "forgeries.md").read_text(encoding="utf-8")
    header, _, *rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    methods = [cell.strip() for cell in header[1:]]
    shown = {row[0].strip(): dict(zip(methods, (cell.strip() for cell in row[1:]), strict=True)) for row in rows}
    marks = {CAUGHT: "+", UNSEEN: ".", None: ""}
    assert shown == {kind.name: {name: marks[kind.of(name)] for name in RELEASES} for kind in KINDS}


@pytest.mark.parametrize("name", list(REGISTRY))
def test_honest_copies_are_verified(name: str, honest_releases: dict[str, Path], tmp_path: Path) -> None:
    assert verified(forged(honest_releases[name], tmp_path / "copy"))
    assert unseen(open_release(honest_releases[name]).opened)


@pytest.mark.parametrize("name", list(RELEASES))
def test_forgeries(name: str, honest_releases: dict[str, Path], tmp_path: Path, update_golden: bool) -> None:
    """Each is caught or unseen as expected, or the table would be modest, and refused in the recorded words."""
    told, wrong = {}, {}
    for number, kind in enumerate(KINDS):
        wanted, found = kind.of(name), UNSEEN
        if wanted is None:
            continue
        try:
            verified(kind.forge(honest_releases[name], tmp_path / str(number)))
            told[kind.name] = "not seen"
        except (VerificationError, ReleaseError) as error:
            found, told[kind.name] = CAUGHT, f"{type(error).__name__}: {error}".replace(str(tmp_path), "")
        if found != wanted:
            wrong[kind.name] = found
    assert wrong == {}
    compare(f"forgeries/{name}", told, 0, update=update_golden)
