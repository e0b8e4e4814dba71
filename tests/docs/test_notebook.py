"""The notebook of examples/ runs from its first cell to its last, and what a cell ends with can be shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "examples" / "study.ipynb"


def run(source: str, names: dict[str, Any]) -> Any:
    """The value of the last expression of a cell, as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if isinstance(last, ast.Expr) else None


def test_the_notebook_runs() -> None:
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in document["cells"]:
        assert cell["cell_type"] in {"code", "markdown"}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            shown.append(run("".join(cell["source"]), names))
    assert [type(value).__name__ for value in shown] == [
        "Release",
        "Answer",
        "Fit",
        "DataFrame",
        "Independence",
        "DataFrame",
    ]
    assert all(value is not None and (repr(value) or value._repr_html_()) for value in shown)
    assert "<table>" in shown[2]._repr_html_()
