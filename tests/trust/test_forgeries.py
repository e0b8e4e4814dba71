"""Every kind of forgery on a release of every method: caught wherever the bundle can show it, and said where it cannot.

False-alarm probability: `verify` uses 1e-9 for each family of tests; releases here are made with fixed seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from forgeries import CAUGHT, KINDS, RELEASES, ROLES, UNSEEN, Kind, honest
from forging import forged, verified
from sfumato.errors import ReleaseError, VerificationError
from sfumato.methods import REGISTRY
from sfumato.query import open_release
from sfumato.release.verify import unseen


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return honest(tmp_path_factory.mktemp("honest"))


def outcome(kind: Kind, release: Path, target: Path) -> str:
    """Whether `verify` refuses the forged copy."""
    try:
        verified(kind.forge(release, target))
    except (VerificationError, ReleaseError):
        return CAUGHT
    return UNSEEN


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
def test_honest_copies_are_verified(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    assert verified(forged(releases[name], tmp_path / "copy"))
    assert unseen(open_release(releases[name]).opened)


@pytest.mark.parametrize("name", list(RELEASES))
def test_forgeries(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    """Each outcome is the expected one; what is expected to be unseen must really be, or the table would be modest."""
    wrong = {}
    for k, kind in enumerate(KINDS):
        wanted = kind.of(name)
        if wanted is not None and (found := outcome(kind, releases[name], tmp_path / str(k))) != wanted:
            wrong[kind.name] = found
    assert wrong == {}
