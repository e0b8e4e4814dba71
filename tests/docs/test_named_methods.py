"""Pages name every method, with every parameter, where they speak of all: the default one above all."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.choosing import DEFAULT
from sfumato.methods.registry import BUILT_IN, REGISTRY, fields_of
from sfumato.model.names import option_name

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
MOST = 6  # a table that names so many methods speaks of methods in general, so it needs the default one
NEARLY_ALL = len(BUILT_IN) - 2  # one that names so many means all


def named(text: str) -> set[str]:
    """Methods in a piece of text, `anatomy` or [`anatomy`](page.md); other words in code are not methods."""
    return set(re.findall(r"`([a-z-]+)[` ]", text)) & set(BUILT_IN)


def missing(page: str) -> Iterator[set[str]]:
    """What tables lack whose rows, or whose columns, are methods."""
    for table in TABLE.findall(page):
        head, *rows = table.splitlines()
        columns = set(re.findall(r"[a-z-]+", head)) & set(BUILT_IN)
        for found in (columns, named(" ".join(row.split("|")[1] for row in rows))):
            if len(found) >= NEARLY_ALL:
                yield set(BUILT_IN) - found
            elif len(found) >= MOST:
                yield {DEFAULT} - found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_of_methods_forget_none(page: Path) -> None:
    assert [lacks for lacks in missing(page.read_text(encoding="utf-8")) if lacks] == []


def test_a_forgotten_method_is_found() -> None:
    """The checker itself."""
    rows = [f"| `{name}` | x |" for name in BUILT_IN]
    head = ["| method | what |", "|---|---|"]
    assert list(missing("\n".join([*head, *rows]) + "\n")) == [set()]
    assert list(missing("\n".join([*head, *rows[:-1]]) + "\n")) == [{list(BUILT_IN)[-1]}]
    assert list(missing("\n".join([*head, *rows[1:7]]) + "\n")) == [{DEFAULT}]


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_the_page_of_a_method_lists_its_parameters(name: str) -> None:
    """Each field of the specification by its option, and no other; those that only Python sets by their names."""
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`--[^|]*)\|", text, re.MULTILINE)
    options = [option for cell in cells for option in re.findall(r"`(--[a-z0-9-]+)`", cell)]
    typed = {field.name for field in fields_of(REGISTRY[name].spec)}
    assert set(options) == {option_name(field) for field in typed}
    in_python = {field.name for field in dataclasses.fields(REGISTRY[name].spec)} - typed
    assert {field for field in in_python if f"`{field}" not in text} == set()


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_the_page_of_a_method_has_its_computed_readers(name: str) -> None:
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    assert f"<!-- readers: {name} -->" in text
