"""What a command has loaded when its first real work begins: opening the table, or the release."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.cli.application import COMMANDS
from sfumato.methods.registry import BUILT_IN
from sfumato.methods.specifications import build
from tables import people

HEAVY = {"pandas", "polars", "scipy", "formulaic", "starlette", "jinja2", "matplotlib", "pyspark", "statsmodels"}

# The first real work: reading the table's header, reading the release's manifest.
WATCHED = """
import atexit, json, os, sys
def told(*_):  # in whichever thread
    print(json.dumps(sorted(sys.modules)), file=sys.stderr, flush=True)
    atexit._run_exitfuncs()
    os._exit(0)
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


def loaded_at_the_end(*commands: Sequence[str]) -> set[str]:
    """The modules that are loaded when the commands have done all of their work, one after the other."""
    text = "import json, sys\nfrom sfumato.cli import main\n"
    for arguments in commands:
        text += f"try:\n    main({list(arguments)!r})\nexcept SystemExit as ended:\n    assert not ended.code\n"
    text += "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def folders(modules: set[str]) -> set[str]:
    return {m.split(".")[2] for m in modules if m.startswith("sfumato.methods.")} & set(BUILT_IN.values())


def commands(modules: set[str]) -> set[str]:
    """The modules of commands among them."""
    return modules & {f"sfumato.{place.rpartition('.')[0]}" for place in COMMANDS.values()}


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
        "sfumato.engines.duckdb.table", "view_of", "publish", table, table.parent / "out", *roles,
        "--method", method, *options,
    )  # fmt: skip
    assert folders(seen) == {folder}
    assert {m.split(".")[0] for m in seen} & (HEAVY | {"sqlglot"}) == set()
    assert commands(seen) == {"sfumato.cli.custodian"}


@pytest.fixture
def release(table: Path) -> Path:
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")
    spec = sfumato.UniformPerturbation(rho1="1/3", rho2="1/2")
    sfumato.publish(table, table.parent / "out", roles=roles, method=spec, seed=1)
    return table.parent / "out"


def test_a_release_is_opened_before_the_parser_is_loaded(release: Path) -> None:
    """And what answers a question, which needs the parser."""
    question = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu'"
    seen = loaded("sfumato.release.opened", "read_manifest", "query", release, question)
    assert {m.split(".")[0] for m in seen} & (HEAVY | {"sqlglot"}) == set()
    rooms = {m.split(".")[1] for m in seen if m.startswith("sfumato.")}
    assert rooms & {"answering", "sql", "query", "publish", "analysis", "web"} == set()
    assert commands(seen) == {"sfumato.cli.analyst"}


def test_looking_at_a_release_and_checking_it_load_no_parser(release: Path) -> None:
    seen = loaded_at_the_end(["inspect", str(release)], ["verify", str(release), "--test"])
    assert "sfumato.release.verify" in seen, "nothing was checked"
    assert {m.split(".")[0] for m in seen} & (HEAVY - {"scipy"} | {"sqlglot"}) == set()
    assert "sfumato.query" not in seen


@pytest.mark.parametrize("command", ["compare", "recommend"])
def test_choosing_loads_no_models_before_one_is_asked_for(command: str, table: Path) -> None:
    asked = ("--sa", "disease", "--rest", "quasi", "--bound", "1/2")
    modules = loaded("sfumato.choosing.setting", "settled_roles", command, table, *asked)
    assert not {m for m in modules if m.startswith(("sfumato.analysis", "scipy.special."))}


def test_publishing_to_the_end_loads_no_parser(table: Path) -> None:
    """Reading back what was written included; by one method, then by all."""
    commands = []
    for method in BUILT_IN:
        example = sfumato.methods.REGISTRY[method].example.options
        options = [part for field, text in example.items() for part in (f"--{field.replace('_', '-')}", text)]
        roles = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop")
        commands.append(["publish", str(table), str(table.parent / method), *roles, "--method", method, *options])
    seen = {m.split(".")[0] for m in loaded_at_the_end(commands[list(BUILT_IN).index("uniform")])}
    assert "duckdb" in seen, "nothing was published"
    assert seen & (HEAVY - {"pandas"} | {"sqlglot", "asyncio"}) == set()
    all_of_them = loaded_at_the_end(*(c for c in commands if "uniform" not in c))
    assert {m.split(".")[0] for m in all_of_them} & (HEAVY - {"scipy", "pandas"} | {"sqlglot", "asyncio"}) == set()
    assert "pyarrow.dataset" not in all_of_them


@pytest.mark.parametrize("own", [None, "26"])
def test_threads_of_linear_algebra_sleep_between_products_unless_told_otherwise(own: str | None) -> None:
    """Said before numpy is loaded, which reads it once."""
    text = """
import os, sys
from sfumato.cli import main
assert "numpy" not in sys.modules
try:
    main(["--version"])
except SystemExit:
    print(os.environ["OPENBLAS_THREAD_TIMEOUT"])
"""
    env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_THREAD_TIMEOUT"}
    env |= {} if own is None else {"OPENBLAS_THREAD_TIMEOUT": own}
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, env=env)
    assert done.stdout.split()[-1] == (own or "4")


# How the custodian's tables are read is nothing to whoever asks a release.
CUSTODIANS = {
    "sfumato.engines.duckdb.table",
    "sfumato.engines.duckdb.sources",
    "sfumato.engines.duckdb.csv",
    "sfumato.engines.parquet_rows",
    "sfumato.publish",
    "sfumato.publishing",
    "urllib.request",
    "multiprocessing",
}


def test_counts_to_the_end_load_their_methods_and_nothing_of_the_custodian(table: Path) -> None:
    """Opening, counting under a condition on both kinds of columns, and printing: by one method, then by all."""
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")
    question = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f'"
    commands = []
    for method in BUILT_IN:
        spec, out = build(method, sfumato.methods.REGISTRY[method].example.options), table.parent / method
        sfumato.publish(table, out, roles=roles, method=spec, seed=1)
        commands.append(("query", str(out), question))
    seen = loaded_at_the_end(commands[0])
    assert folders(seen) == {BUILT_IN[next(iter(BUILT_IN))]}
    assert {m.split(".")[0] for m in seen} & (HEAVY - {"scipy"}) == set()
    seen = loaded_at_the_end(*commands)
    assert folders(seen) == set(BUILT_IN.values()), "not all were asked"
    assert seen & CUSTODIANS == set()


def test_a_command_leaves_the_collector_as_it_was() -> None:
    """While code is loaded it would look at every object again and again, and find none to be thrown away."""
    text = """
import gc, os
from sfumato.cli import main
usual = gc.get_threshold()
import sfumato.cli.application as application
application.main = lambda _: print(gc.get_threshold()[0], gc.isenabled())
for command in ("serve", "query"):
    main([command])
    assert gc.get_threshold() == usual
"""
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    long, enabled, short, still = done.stdout.split()
    assert gc.get_threshold()[0] < int(long) < int(short)
    assert (enabled, still) == ("True", "True")


def test_whoever_imports_scipy_after_a_command_gets_all_of_it() -> None:
    """The compiled functions are loaded alone, and the package afterwards has the same ones."""
    text = """
import sys
from sfumato import lazily
lazily.one_command()
functions = lazily.special.gammaincc, lazily.special.ndtri
assert not {"scipy.special", "scipy.linalg", "numpy.testing"} & set(sys.modules), "more was loaded"
import scipy.special, scipy.stats, scipy.optimize, scipy.sparse.linalg
assert functions == (scipy.special.gammaincc, scipy.special.ndtri)
assert scipy.special.logsumexp([0.0]) == 0 and scipy.stats.norm.cdf(0) == 0.5
"""
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_functions_of_arrow_work_whose_docstrings_nobody_has_read() -> None:
    text = """
import sys
from sfumato import lazily
lazily.one_command()
assert lazily.compute.sum and not {"pandas"} & set(sys.modules)
import pyarrow as pa, pyarrow.compute as pc
assert lazily.compute.index_in is pc.index_in
assert "pyarrow.vendored.docscrape" not in sys.modules and "pydoc" not in sys.modules, "they were read"
assert pc.sort_indices(pa.array([3, 1, 2]), sort_keys=[("", "descending")]).to_pylist() == [0, 2, 1]
assert pc.round(pa.array([1.25]), ndigits=1).to_pylist() == [1.2] and pc.index_in.__doc__
assert "cumulative_sum" not in vars(pc), "all of them were made"
assert pc.cumulative_sum(pa.array([1, 2])).to_pylist() == [1, 3] and "cumulative_sum" in vars(pc)
assert pc.and_(pa.array([True]), pa.array([False])).to_pylist() == [False] and pc.utf8_zfill
assert not hasattr(pc, "no_such_function") and not hasattr(pc, "hash_sum") and not hasattr(pc, "__path__")
assert len(pc.function_registry().list_functions()) > 100 and all(
    hasattr(pc, name) for name in pc.list_functions() if pc.get_function(name).kind in ("scalar", "vector")
)
from pyarrow.vendored.docscrape import NumpyDocString
assert NumpyDocString("One.\\n\\nParameters\\n----------\\nx : int\\n    Two.\\n")["Parameters"]
"""
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("publish", "--help"), ("--version",)])
def test_help_loads_no_engine(arguments: tuple[str, ...]) -> None:
    text = f"import json, sys\nfrom sfumato.cli import main\ntry:\n    main({list(arguments)!r})\nexcept SystemExit:\n"
    text += "    print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    tops = {m.split(".")[0] for m in json.loads(done.stderr.splitlines()[-1])}
    assert tops & (HEAVY | {"sqlglot", "duckdb"}) == set()
    assert "numpy" not in tops or arguments == ("publish", "--help")  # specifications of methods need it
