"""What a command has loaded when its first real work begins: opening the table, or the release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.methods.registry import BUILT_IN
from tables import people

HEAVY = {"pandas", "polars", "scipy", "formulaic", "starlette", "jinja2", "matplotlib", "pyspark", "statsmodels"}

# The first real work: reading the table's header, reading the release's manifest.
WATCHED = """
import json, sys
def told(*_):
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
    raise SystemExit(0)
import {module}
{module}.{name} = told
from sfumato.cli import main
main({arguments!r})
"""


def loaded(module: str, name: str, *arguments: object) -> set[str]:
    """The modules that are loaded when the command calls `module.name`."""
    text = WATCHED.format(module=module, name=name, arguments=[str(a) for a in arguments])
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def folders(modules: set[str]) -> set[str]:
    return {m.split(".")[2] for m in modules if m.startswith("sfumato.methods.")} & set(BUILT_IN.values())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    pq.write_table(people(), path)
    return path


@pytest.mark.parametrize(("method", "folder"), list(BUILT_IN.items()))
def test_publishing_loads_one_method_and_neither_scipy_nor_the_parser(method: str, folder: str, table: Path) -> None:
    roles = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop")
    example = sfumato.methods.REGISTRY[method].example.options
    options = [part for field, text in example.items() for part in (f"--{field.replace('_', '-')}", text)]
    seen = loaded(
        "sfumato.engines.duckdb.table", "binder", "publish", table, table.parent / "out", *roles,
        "--method", method, *options,
    )  # fmt: skip
    assert folders(seen) == {folder}
    assert {m.split(".")[0] for m in seen} & (HEAVY | {"sqlglot"}) == set()


def test_publishing_to_the_end_loads_neither_pandas_nor_the_parser(table: Path) -> None:
    """Reading back what was written included."""
    arguments = ["publish", str(table), str(table.parent / "out"), "--sa", "disease", "--qi", "age,sex"]
    arguments += ["--rest", "drop", "--method", "uniform", "--rho1", "1/3", "--rho2", "1/2"]
    text = f"import json, sys\nfrom sfumato.cli import main\ntry:\n    main({arguments!r})\n"
    text += "finally:\n    print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
    seen = {m.split(".")[0] for m in json.loads(done.stderr.splitlines()[-1])}
    assert "duckdb" in seen, "nothing was published"
    assert seen & (HEAVY | {"sqlglot", "asyncio"}) == set()


def test_asking_loads_one_method_and_no_scipy(table: Path) -> None:
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")
    out = table.parent / "out"
    sfumato.publish(table, out, roles=roles, method=sfumato.UniformPerturbation(rho1="1/3", rho2="1/2"), seed=1)
    seen = loaded("sfumato.engines.duckdb.table", "DuckDBReader", "query", out, "SELECT COUNT(*) AS n FROM release")
    assert folders(seen) <= {"uniform"}
    assert {m.split(".")[0] for m in seen} & HEAVY == set()


@pytest.mark.parametrize("arguments", [("--help",), ("publish", "--help"), ("--version",)])
def test_help_loads_no_engine(arguments: tuple[str, ...]) -> None:
    text = f"import json, sys\nfrom sfumato.cli import main\ntry:\n    main({list(arguments)!r})\nexcept SystemExit:\n"
    text += "    print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    tops = {m.split(".")[0] for m in json.loads(done.stderr.splitlines()[-1])}
    assert tops & (HEAVY | {"sqlglot", "duckdb"}) == set()
    assert "numpy" not in tops or arguments == ("publish", "--help")  # specifications of methods need it
