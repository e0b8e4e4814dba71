"""What comments and docstrings cite is in the repository: the page, and the section of that number."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("src", "tests", "benchmarks", "tools", "examples", "docs")
# "docs/explanation/x.md", with ", 5.1" or ", section 5.1" or ", sections 2, 4 and 5" behind it, on two lines perhaps
CITED = re.compile(r"(docs/[\w/-]+\.md)(?:,?\s+(?:sections?\s+)?(\d+(?:\.\d+)?(?:(?:, | and )\d+(?:\.\d+)?)*))?")


@cache
def sections(page: Path) -> frozenset[str]:
    """Numbers of the headings of a page."""
    return frozenset(re.findall(r"^#+ (\d+(?:\.\d+)*)\.? ", page.read_text(encoding="utf-8"), re.MULTILINE))


def dangling(text: str) -> list[str]:
    """Citations that lead nowhere."""
    found = []
    for name, numbers in CITED.findall(re.sub(r"\s*\n\s*(?:# ?)?", " ", text)):
        page = ROOT / name
        if not page.is_file():
            found.append(name)
        else:
            found += [f"{name}, {n}" for n in re.findall(r"\d+(?:\.\d+)?", numbers) if n not in sections(page)]
    return found


def test_every_page_and_section_that_is_cited_exists() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py") if file != Path(__file__)]
    texts = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    assert sum(len(CITED.findall(text)) for text in texts.values()) > 100
    assert {file: found for file, text in texts.items() if (found := dangling(text))} == {}


def test_a_citation_that_leads_nowhere_is_found() -> None:
    assert dangling("docs/explanation/nothing.md") == ["docs/explanation/nothing.md"]
    assert dangling("see docs/explanation/splu.md,\n# sections 3.1 and 77") == ["docs/explanation/splu.md, 77"]
