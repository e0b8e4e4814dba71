"""docs/install.md tells every extra and what it costs; the citation says what the package says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.measure_extras import PAGE, extras, named, needed, rewritten, size

import sfumato

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?:`\[(?P<extra>\w+)\]`|none) \| .* \| (?P<brings>[^|]*) \| (?:(?P<size>[\d.]+)|under 1) MB \|$")


@pytest.fixture(autouse=True)
def rewrite(update_golden: bool) -> None:
    if update_golden:
        PAGE.write_text(rewritten(), encoding="utf-8")


def rows() -> Iterator[tuple[str, tuple[str, ...], float]]:
    """(extra, what it brings, megabytes), row by row."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        found = ROW.match(line)
        if found:
            yield found["extra"] or "", tuple(found["brings"].split(", ")), float(found["size"] or 1)


def test_every_extra_has_its_row() -> None:
    assert [(extra, brings) for extra, brings, _ in rows()] == [(e, named(r)) for e, r in extras().items()]


def test_the_costs_are_about_those_measured_here() -> None:
    """Within a factor of two: wheels of other machines differ. Extras that are not installed here are passed over."""
    wanted, checked = extras(), 0
    base = needed(wanted[""])
    for extra, _, said in rows():
        if extra in {"test", "spark"}:  # thousands of files
            continue
        try:
            own = needed(wanted[extra]) - (base if extra else set())
        except KeyError:
            continue
        assert said / 2 <= max(size(own), 1) <= 2 * said, extra
        checked += 1
    assert checked >= 5


def test_the_citation_says_what_the_package_says() -> None:
    said = dict(re.findall(r"^([a-z-]+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    assert said["cff-version"] == "1.2.0"
    assert said["version"] == sfumato.__version__
    assert said["license"] == "Apache-2.0"
    assert {"message", "title", "type"} <= set(said)


def test_release_notes_have_versions_and_known_headings() -> None:
    """Newest first; above the versions that are out there may be one that is not."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    out = [tuple(map(int, v.split("."))) for v in versions if v != "Unreleased"]
    assert versions
    assert "Unreleased" not in versions[1:]
    assert out == sorted(out, reverse=True)
    headings = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert headings <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Guarantees and numbers"}
