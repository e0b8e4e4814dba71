"""A method that lacks a member is found by the type checker, before anything runs."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from commands import SRC
from sfumato.methods.contract import Method

api = pytest.importorskip("mypy.api", reason="the dev extra is not installed")
BARE = Path(__file__).parent / "bare_method.py"
# Of all that a method imports, the type checker reads what makes a member abstract: seconds instead of half a minute.
ONLY_THE_CONTRACT = f"""
[mypy]
cache_dir = {os.devnull}
follow_imports = skip
[mypy-sfumato.methods.contract]
follow_imports = normal
"""
pytestmark = pytest.mark.slow


def without(member: str) -> str:
    """The bare method without one of its members, as a class of another name."""
    module = ast.parse(BARE.read_text(encoding="utf-8"))
    (found,) = (n for n in module.body if isinstance(n, ast.ClassDef) and n.name == "KeptShareMethod")
    kept = [part for part in found.body if member not in _names(part)]
    assert len(kept) == len(found.body) - 1
    made = ast.ClassDef(**{**vars(found), "name": f"Without_{member}", "body": kept})
    return f"{ast.unparse(made)}\n\nlacks_{member} = Without_{member}()\n"


def _names(part: ast.stmt) -> set[str]:
    if isinstance(part, ast.Assign):
        return {target.id for target in part.targets if isinstance(target, ast.Name)}
    return {part.name} if isinstance(part, ast.FunctionDef) else set()


def test_every_member_without_a_default_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = set(Method.__abstractmethods__)
    assert {"title", "example", "report"} <= wanted
    text = BARE.read_text(encoding="utf-8") + "\n\n" + "\n\n".join(without(member) for member in sorted(wanted))
    (tmp_path / "lacking.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("MYPYPATH", str(SRC))
    (tmp_path / "mypy.ini").write_text(ONLY_THE_CONTRACT, encoding="utf-8")
    said, _, _ = api.run(["--config-file", str(tmp_path / "mypy.ini"), str(tmp_path / "lacking.py")])
    missed = set(re.findall(r'Cannot instantiate abstract class "Without_\w+" with abstract attribute "(\w+)"', said))
    assert missed == wanted, said
