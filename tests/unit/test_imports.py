"""What `import sfumato` may load, and which way imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
HEAVY = ("pandas", "polars", "pyspark", "altair", "vl_convert", "nicegui", "fastapi", "opendp", "jinja2", "numba")


@pytest.mark.parametrize("module", ["sfumato", "sfumato.datasets"])
def test_import_loads_no_optional_library(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert loaded == []


# Which libraries and which parts of the package a part may import, besides the standard library and itself.
MAY_IMPORT = {
    "errors": set(),
    "model": {"numpy", "pydantic", "sfumato.errors", "scipy"},
    "stats": {"numpy", "sfumato.model", "sfumato.errors", "scipy"},
    "laws": {"numpy", "pydantic", "scipy", "sfumato.stats", "sfumato.model", "sfumato.errors"},
    "methods": {"numpy", "scipy", "sfumato.laws", "sfumato.stats", "sfumato.model", "sfumato.errors"},
    "sql": {"numpy", "scipy", "sqlglot", "sfumato.stats", "sfumato.model", "sfumato.errors"},
    "reports": {"sfumato.model", "sfumato.errors", "sfumato.version", "altair", "vl_convert", "jinja2", "markupsafe"},
    "release": {
        *("numpy", "pyarrow", "pydantic", "cryptography"),
        *("sfumato.engines", "sfumato.laws", "sfumato.methods", "sfumato.stats", "sfumato.model", "sfumato.errors"),
        "sfumato.version",
    },
}
# Pure parts: no file, clock, process or generator of their own.
PURE = ("model", "stats", "laws", "methods", "sql")
IMPURE = {"os", "pathlib", "io", "time", "random", "secrets", "subprocess", "socket", "tempfile", "shutil", "uuid"}
# Readers' code and the writer of releases never see the types that hold facts about people.
NO_PRIVATE = ("query", "answering", "sql", "release")


def imports(source: str, module: str) -> list[str]:
    """Full names of everything a module imports; relative imports resolved, names under TYPE_CHECKING included."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level] if node.level else [])
            stem = ".".join(part for part in (base, node.module) if part)
            found += [f"{stem}.{alias.name}" for alias in node.names]
    return found


def modules(part: str) -> list[tuple[str, str]]:
    """(module name, source) of a part: one file or a folder of them."""
    root = SRC / "sfumato"
    files = [root / f"{part}.py"] if (root / f"{part}.py").exists() else sorted((root / part).rglob("*.py"))
    return [(_name(file), file.read_text(encoding="utf-8")) for file in files]


def _name(file: Path) -> str:
    """Dotted name; a package counts as its __init__, so that one leading dot means the package itself."""
    return ".".join(file.relative_to(SRC).with_suffix("").parts)


def breaches(part: str, module: str, source: str) -> list[str]:
    """The imports of a module that its part may not have."""
    allowed = MAY_IMPORT.get(part)
    found = []
    for name in imports(source, module):
        top = name.split(".")[0]
        standard = top in sys.stdlib_module_names
        inside = ".".join(name.split(".")[:2]) if top == "sfumato" else top
        own = name == "sfumato" or inside == f"sfumato.{part}"
        if allowed is not None and not (standard or own or inside in allowed):
            found.append(name)
        if part in PURE and top in IMPURE:
            found.append(name)
        if part in NO_PRIVATE and name.startswith("sfumato.model.private"):
            found.append(name)
    return found


@pytest.mark.parametrize("part", sorted({*MAY_IMPORT, *PURE, *NO_PRIVATE}))
def test_imports_point_one_way(part: str) -> None:
    found = {module: breaches(part, module, source) for module, source in modules(part)}
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("stats", "from ..methods import uniform"),
        ("stats", "import pyarrow"),
        ("methods", "import duckdb"),
        ("methods", "from sfumato.engines import run"),
        ("methods", "import secrets"),
        ("sql", "from ..model.private import Profile"),
        ("release", "from ..model import private"),
        ("release", "from ..choosing import compare"),
        ("errors", "import numpy"),
    ],
)
def test_a_wrong_import_is_found(part: str, line: str) -> None:
    """The checker itself."""
    assert breaches(part, f"sfumato.{part}.module", line) != []


def test_a_right_import_is_not() -> None:
    right = "from ...model.private import Profile\nfrom ...stats import gamma\nimport numpy as np\nimport math\n"
    assert breaches("methods", "sfumato.methods.splu", right) == []


# The contracts of import-linter that list their modules, the folder they speak of, and what stands outside them.
LISTED = {
    "methods do not import each other": ("methods", {"contract", "ladder", "registry", "shared"}),
    "the analysts' pages know nothing of the custodian's studio": ("web", {"studio"}),
    "attacks never see what the custodian knows; score alone does": ("audit", {"custody", "score"}),
}


@pytest.mark.parametrize("name", LISTED)
def test_a_contract_that_lists_modules_lists_all_of_its_folder(name: str) -> None:
    """A module that nobody lists may import what it likes."""
    settings = tomllib.loads((SRC.parent / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["name"] == name)
    listed = {module.rpartition(".")[2] for module in contract.get("source_modules") or contract["modules"]}
    folder, outside = LISTED[name]
    there = {file.stem for file in (SRC / "sfumato" / folder).iterdir() if file.suffix == ".py" or _is_package(file)}
    assert listed == there - outside - {"__init__"}


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()
