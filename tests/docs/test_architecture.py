"""docs/architecture.md: its names exist, its walks happen in its order, and its drawing is that of the import rules."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from tools import size
from tools.draw_architecture import FIGURE, drawing, layers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS = [room for layer in layers() for room in layer]
NAME = re.compile(rf"`((?:{'|'.join(ROOMS)})\.[A-Za-z_.]+)`")
FILES = (".json", ".parquet")


def names(text: str) -> list[str]:
    """The dotted names in backticks that begin with a room, in order; names of files are none."""
    return [name for name in NAME.findall(text) if not name.endswith(FILES)]


def resolved(name: str) -> Any:
    """What a dotted name stands for: the longest part that is a module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(("sfumato", *parts[:cut])))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[cut:], module)
    raise LookupError(name)


def steps(walk: str) -> list[str]:
    """The functions named in the numbered steps of a walk; classes are named there too."""
    section = re.split(rf"\n## Walk \d: {walk}\n", PAGE)[1].split("\n## ")[0]
    numbered = "\n".join(re.findall(r"^\d+\. .*(?:\n {3}\S.*)*", section, re.MULTILINE))
    return [name for name in names(numbered) if inspect.isfunction(resolved(name))]


def first_out_of_order(wanted: list[str], entered: list[str]) -> str | None:
    """The first name that is not entered after those before it; None where all are."""
    rest = iter(entered)
    return next((name for name in wanted if name not in rest), None)


def test_every_name_exists() -> None:
    found = names(PAGE)
    assert len(found) > 50
    for name in found:
        resolved(name)


@pytest.mark.parametrize("wrong", ["methods.contract.Method.guess", "engines.nothing.Table"])
def test_a_wrong_name_is_found(wrong: str) -> None:
    with pytest.raises((AttributeError, ModuleNotFoundError, LookupError)):
        resolved(wrong)


def test_every_room_is_on_the_page() -> None:
    table = PAGE.split("## The rooms")[1].split("\n\n## ")[0]
    first = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    assert sorted(re.findall(r"`(\w+)`", first)) == sorted(ROOMS)


def test_the_drawing_is_that_of_the_import_rules(golden: Callable[[Path, str], None]) -> None:
    golden(FIGURE, drawing())


def test_the_walks_happen_in_their_order(tmp_path: Path) -> None:
    """Functions are first entered in the order of the page, as `make size` traces them."""
    traced = size.walks(tmp_path)
    for walk, entered in traced.items():
        wanted = steps(walk)
        assert len(wanted) > 15, walk
        called = [*size.names(entered)]
        assert first_out_of_order(wanted, called) is None, walk
        assert first_out_of_order([*wanted, wanted[0]], called) == wanted[0]  # the checker itself
