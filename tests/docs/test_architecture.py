"""docs/architecture.md: its names exist, its walks happen in its order, and its drawing is that of the import rules."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable
from functools import reduce
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.parquet as pq
import pytest
from tools.draw_architecture import FIGURE, drawing, layers

from commands import METHODS, sfumato
from tables import MARK, people

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS = [room for layer in layers() for room in layer]
NAME = re.compile(rf"`((?:{'|'.join(ROOMS)})\.[A-Za-z_.]+)`")
FILES = (".json", ".parquet")
STORIES = {"cli", "publish", "query"}  # they call the rooms one after the other
BELOW = {"model", "errors", "version", "stats", "reports"}  # nouns and formulas that every room uses


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


def walk(number: int) -> list[str]:
    """The functions named in the numbered steps of a walk; classes are named there too, but not called by us."""
    section = PAGE.split(f"\n## Walk {number}:")[1].split("\n## ")[0].split("\nRooms that this walk")[0]
    steps = "\n".join(re.findall(r"^\d+\. .*(?:\n {3,4}\S.*)*", section, re.MULTILINE))
    return [name for name in names(steps) if inspect.isfunction(resolved(name))]


def test_every_name_exists() -> None:
    found = names(PAGE)
    assert len(found) > 80
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


def calls(*arguments: object, cwd: Path) -> list[str]:
    """Dotted names of the functions of the package that a command calls, in order."""
    found: list[str] = []
    inside = f"{ROOT / 'src' / 'sfumato'}{os.sep}"

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(inside):
            module = file.removeprefix(inside).removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")
            found.append(f"{module}.{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)  # batches are worked on in threads
    try:
        done = sfumato(*arguments, cwd=cwd)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    assert done.code == 0, done.text
    return found


def first_out_of_order(wanted: list[str], called: list[str]) -> str | None:
    """The first name that is not called after those before it; None where all are."""
    rest = iter(called)
    return next((name for name in wanted if name not in rest), None)


def entered_again(called: list[str]) -> set[str]:
    """Rooms that are left and entered again, besides the stories that call the others, and what lies below all."""
    rooms = [room for room in (name.split(".")[0] for name in called) if room not in STORIES | BELOW]
    in_turn = [room for room, _ in groupby(rooms)]
    return {room for room in in_turn if in_turn.count(room) > 1}


def said_again(number: int) -> set[str]:
    """The rooms of the table behind a walk."""
    table = PAGE.split(f"\n## Walk {number}:")[1].split("Rooms that this walk")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table; the engine has one thread, so that callbacks run where calls are noted."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    pq.write_table(people(), tmp_path / "t.parquet")
    return tmp_path


def test_the_walks_happen_in_their_order(folder: Path) -> None:
    roles = ("--sa", "disease", "--rest", "quasi", "--drop", f"{MARK}_name,number")
    method = ("--method", "small-domain", *METHODS["small-domain"])
    publishing, asking = walk(1), walk(2)
    assert len(publishing) > 30
    assert len(asking) > 25
    called = calls("publish", "t.parquet", "out", *roles, *method, "--seed", 1, cwd=folder)
    assert first_out_of_order(publishing, called) is None
    assert entered_again(called) == said_again(1)
    sql = PAGE.split("\n## Walk 2:")[1].split('"')[1]
    called = calls("query", "out", sql, cwd=folder)
    assert first_out_of_order(asking, called) is None
    assert entered_again(called) == said_again(2)
    assert first_out_of_order([*asking, "sql.parse.parse"], called) == "sql.parse.parse"  # the checker itself
