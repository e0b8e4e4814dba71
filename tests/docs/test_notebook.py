"""The notebooks of examples/ run from their first cell to their last, and show what they are stored with.

`make golden` executes them and stores what every cell shows.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run(source: str, names: dict[str, Any]) -> Any:
    """The value of the last expression of a cell, as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if isinstance(last, ast.Expr) else None


def outputs(source: str, names: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """What a notebook stores of a cell: its print-out and its last value."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = run(source, names)
    if printed.getvalue():
        yield {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        yield {"data": shown, "execution_count": count, "metadata": {}, "output_type": "execute_result"}


def executed(document: dict[str, Any]) -> dict[str, Any]:
    """The notebook with what its cells show now; their names are kept, to look at."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            shown = list(outputs("".join(cell["source"]), names, count))
            cells.append(cell | {"execution_count": count, "outputs": shown})
        else:
            assert cell["cell_type"] == "markdown"
            cells.append(cell)
    return document | {"cells": cells}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda n: n.stem)
def test_a_notebook_shows_what_it_is_stored_with(
    notebook: Path, golden: Callable[[Path, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads(notebook.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    now = executed(document)
    golden(notebook, json.dumps(now, indent=1, ensure_ascii=False) + "\n")
    code = [cell for cell in now["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code)
    assert not any("object at 0x" in json.dumps(cell) for cell in code)


def test_values_show_as_tables_in_a_notebook() -> None:
    import sfumato as sf

    roles = sf.Roles(sensitive="occupation", quasi=("age", "sex"), rest="drop")
    method = sf.UniformPerturbation(rho1="1/5", rho2="1/2")
    release = sf.publish(sf.datasets.adult(), roles=roles, method=method, null_as_value=True, seed=1)
    counted = release.sql("SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY sex")
    assert "<table" in counted._repr_html_()
    assert "<table>" in release.fit("age ~ C(sex)")._repr_html_()
