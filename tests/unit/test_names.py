"""Names tell modules and classes apart; nothing is found by looking for a name; no module has outgrown its noun."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from commands import SRC
from sfumato.methods.registry import BUILT_IN

ROOT = SRC / "sfumato"
MODULES = sorted(ROOT.rglob("*.py"))
TOP = SRC.parent
BESIDE = sorted(
    file for room in ("tests", "benchmarks", "tools", "docs", "examples") for file in (TOP / room).rglob("*.py")
)
HELPERS = {file.stem for file in (TOP / "tests").glob("*.py")}  # what tests share
# Parts that several folders have by the same name, because they are the same thing in each.
PARTS = {
    "__init__",
    "__main__",
    "contract",  # of engines, of methods
    "functionals",  # of the methods whose rows are not independent
    "method",  # of every method
    "readers",  # of every method, and what they share
    "specification",  # of the methods whose own one is long
    "verify",  # of every method, and of the bundle
    *("reader", "session", "sources", "table"),  # of every engine
}
# Names that differ by an ending only, where the two are told apart by what they are and not by the ending.
ALIKE = {
    frozenset({"reader", "readers"}): "of an engine; how far readers of a method's release get",
    frozenset({"source", "sources"}): "what people hand over; how an engine opens it",
    frozenset({"specification", "specifications"}): "of one method; of any, made from options",
}
ENDINGS = ("ings", "ing", "ied", "ed", "en", "es", "s", "e")
MOST_LINES = 400
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Where a name is known at run time only, and not that of a part of a method, a specification or a plan.
LOOKED_UP = {
    "__init__.py": "public names are imported when they are first used",
    "cli/late_modules.py": "names of a module, loaded when one is first used",
    "engines/duckdb/session.py": "only some of the engine's exceptions carry an error number",
    "engines/databases/__init__.py": "only some drivers' exceptions carry a code",
    "engines/source.py": "options by their names, to refuse those that would not be honoured",
    "lazily.py": "names of a library, loaded when one is first used",
    "model/public.py": "columns of a role, by the role's name",
}


# Where a method is named outside its own folder, and why that is not knowledge of how it works.
NAMED = {
    "__init__.py": "the specifications that people import",
    "choosing/__init__.py": "the default, which a test holds to be the best",
    "choosing/recommend.py": "the baseline that promises nothing",
    "cli/evidence.py": "a paper, which is called like its method",
    "methods/registry.py": "the registry",
}


def shown(file: Path) -> str:
    return file.relative_to(ROOT if file.is_relative_to(ROOT) else TOP).as_posix()


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def test_no_two_modules_have_the_same_name() -> None:
    found = defaultdict(list)
    for file in MODULES:
        found[file.stem].append(shown(file))
    assert {name: files for name, files in found.items() if len(files) > 1 and name not in PARTS} == {}
    assert {name for name in PARTS if len(found[name]) < 2} == set(), "exempt without need"


def stem(name: str) -> str:
    """A name without the ending of its last word: workload and workloads, place and placing have one."""
    ending = next((e for e in ENDINGS if name.endswith(e) and len(name) - len(e) > 2), "")
    return name.removesuffix(ending)


def test_no_two_modules_differ_by_an_ending_only() -> None:
    found = defaultdict(set)
    for name in {file.stem for file in MODULES if file.parent != ROOT}:  # a story and its room do: publish, publishing
        found[stem(name)].add(name)
    alike = {frozenset(names) for names in found.values() if len(names) > 1}
    assert alike == set(ALIKE)
    assert stem("places") == stem("placing")
    assert stem("foresee") == stem("foreseen")


def test_no_two_classes_have_the_same_name() -> None:
    found = defaultdict(list)
    for file in MODULES:
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{shown(file)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_nothing_is_found_by_looking_for_a_name() -> None:
    """A part that may be missing would be missing where it matters."""
    places = defaultdict(list)
    for file in MODULES:
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Name) and node.id in {"getattr", "hasattr"}:
                places[shown(file)].append(node.lineno)
    assert {file: lines for file, lines in places.items() if file not in LOOKED_UP} == {}
    assert set(LOOKED_UP) <= set(places), "listed without need"


def test_no_room_knows_a_method() -> None:
    """What a method is lies in its folder: elsewhere it is asked, so that a method of another package is asked too."""
    folders = set(BUILT_IN.values())
    places = defaultdict(set)
    for file in MODULES:
        room = file.relative_to(ROOT).parts
        if room[0] == "papers" or (room[0] == "methods" and room[1] in folders):
            continue
        texts = [
            ast.get_docstring(node, clean=False) for node in ast.walk(parsed(file)) if isinstance(node, DOCUMENTED)
        ]
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ImportFrom) and folders & set((node.module or "").split(".")):
                places[shown(file)].add(node.module)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in texts:
                words = set(re.findall(r"[a-z]+(?:-[a-z]+)*", node.value)) if " " in node.value else {node.value}
                places[shown(file)] |= words & (set(BUILT_IN) - {"uniform"} if " " in node.value else set(BUILT_IN))
    found = {file: names for file, names in places.items() if names}
    assert {file: names for file, names in found.items() if file not in NAMED} == {}
    assert set(NAMED) <= set(found), "listed without need"


def test_no_two_tests_have_the_same_name() -> None:
    """Failures are reported by the name of their file."""
    found = defaultdict(list)
    for file in BESIDE:
        if file.name.startswith("test_"):
            found[file.stem].append(shown(file))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_benchmarks_run_without_the_tests() -> None:
    """`python -m benchmarks.x` finds its own modules and the package, nothing else of ours."""
    own = {file.stem for file in (TOP / "benchmarks").glob("*.py")}
    found = []
    for file in (TOP / "benchmarks").rglob("*.py"):
        for node in ast.walk(parsed(file)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [f"{shown(file)} imports {name}" for name in names if name.split(".")[0] in HELPERS | own]
    assert found == []


@pytest.mark.parametrize("file", [*MODULES, *BESIDE], ids=shown)
def test_a_module_says_what_it_holds_and_holds_one_idea(file: Path) -> None:
    assert ast.get_docstring(parsed(file)), "no docstring"
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
