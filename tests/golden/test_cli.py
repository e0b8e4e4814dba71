"""The real command with a seed: what it prints is in cli/<case>.txt, numbers to six digits; `make golden` rewrites."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import METHODS, process, sfumato
from tables import people

GOLDEN = Path(__file__).parent / "cli"
ROLES = "--sa disease --qi age,sex --keep number --drop name"
QUESTION = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"

CASES = {
    "publish": "publish t.parquet new {roles} {method} --seed 1",
    "plan": "plan t.parquet {roles} {method} --seed 1",
    "inspect": "inspect out",
    "verify": "verify out --test",
    "query": f'query out "{QUESTION}"',
    "query-json": f'query out "{QUESTION}" --format json',
    "query-csv": f'query out "{QUESTION}" --format csv',
    "query-exact": 'query out "SELECT COUNT(*) FROM release WHERE age < 40" --format json',
}


@pytest.fixture(scope="module", params=METHODS)
def method(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """(name, options, folder with the table t.parquet and its release out)."""
    name, here = request.param, tmp_path_factory.mktemp(request.param)
    options = shlex.join(("--method", name, *METHODS[name]))
    pq.write_table(people().rename_columns(["name", "number", "age", "sex", "disease"]), here / "t.parquet")
    done = sfumato(*shlex.split(f"publish t.parquet out {ROLES} {options} --seed 1"), cwd=here)
    assert done.code == 0, done.text
    return name, options, here


@pytest.mark.parametrize("case", CASES)
def test_command_prints_what_it_printed(
    case: str, method: tuple[str, str, Path], golden: Callable[[Path, str], None]
) -> None:
    name, options, here = method
    command = CASES[case].format(roles=ROLES, method=options)
    done = sfumato(*shlex.split(command), cwd=here)
    shown = f"$ sfumato {command}\n{done.out}--- stderr\n{done.err}--- exit code {done.code}\n"
    shown = re.sub(r"\d+\.\d{6,}", lambda number: f"{float(number.group()):.6g}", shown)  # libraries differ in the last
    golden(GOLDEN / f"{name}-{case}.txt", shown)
    assert done.code == 0


def test_json_has_the_documented_shape(method: tuple[str, str, Path]) -> None:
    """Other people's scripts rely on it."""
    name, options, here = method
    answer = json.loads(sfumato("query", "out", QUESTION, "--format", "json", cwd=here).out)
    assert {"method", "level", "kind", "rows"} <= set(answer) <= {"method", "level", "kind", "rows", "caveats"}
    assert (answer["method"], answer["level"]) == (name, 0.95)
    assert answer["kind"] in {"confidence", "bounds", "exact"}
    always = {"sex", "n", "n_se", "n_low", "n_high"}
    for row in answer["rows"]:
        assert set(row) in (always, always | {"n_min", "n_max"})
        assert (row["n"] is None) == (answer["kind"] == "bounds")
        assert 0 <= row["n_low"] <= row["n_high"] <= 1_246
    exact = json.loads(sfumato("query", "out", "SELECT COUNT(*) FROM release", "--format", "json", cwd=here).out)
    row = exact["rows"][0]
    assert exact["kind"] == "exact"
    assert row["count_star()"] == row["count_star()_low"] == row["count_star()_high"] == 1_246
    assert row["count_star()_se"] == 0

    plan = json.loads(sfumato(*shlex.split(f"plan t.parquet {ROLES} {options} --json"), cwd=here).out)
    assert {"method", "rows", "parameters", "guarantee", "expected_error"} <= set(plan)
    for table in plan.get("sub_tables", ()):
        assert {"id", "size", "domain", "counts", "rho1", "gamma", "keep", "retention"} <= set(table)
    inspected = json.loads(sfumato("inspect", "out", "--json", cwd=here).out)
    assert {"method", "rows", "guarantee", "columns"} <= set(inspected)


def test_seed_fails_verification_unless_it_is_a_test(method: tuple[str, str, Path]) -> None:
    done = sfumato("verify", "out", cwd=method[2])
    assert done.code == 4
    assert "seed" in done.err


def test_changed_file_fails_verification(method: tuple[str, str, Path], tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(method[2] / "out", tmp_path / "copy"))
    data = bytearray((copy / "data.parquet").read_bytes())
    data[100] ^= 1
    (copy / "data.parquet").write_bytes(data)
    done = sfumato("verify", copy, "--test")
    assert done.code == 4
    assert "data.parquet" in done.err


@pytest.mark.slow
def test_the_installed_command_is_the_same(method: tuple[str, str, Path]) -> None:
    """One run in a process of its own: exit code, stdout and stderr as in this process."""
    inside, outside = (run("query", "out", QUESTION, cwd=method[2]) for run in (sfumato, process))
    assert inside == outside
