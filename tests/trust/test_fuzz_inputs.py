"""Hostile manifests, questions, options and tables: one line and the right exit code; no traceback, no hang, no flood.

The inputs are drawn from a fixed seed, a short form of the campaign; what a longer one found is listed by name.
"""

from __future__ import annotations

import copy
import json
import random
import re
import resource
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import METHODS, Done, sfumato
from constants import SEED
from forging import forged
from sfumato.methods import REGISTRY
from tables import people

SECONDS = 600  # for one command; they take well below one
ADDRESS_SPACE = 12 * 2**30
ROLES = ("--sa", "disease", "--qi", "age,sex", "--keep", "number,x", "--rest", "drop")


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """A command that hangs is stopped, and one that asks for all the memory there is gets none."""

    def late(*_: object) -> None:
        raise AssertionError("the command hangs")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()  # by earlier tests
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, hard))
    before = signal.signal(signal.SIGALRM, late)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _calm(*arguments: object) -> Done:
    """The finished command, which may refuse and may not fail."""
    signal.alarm(SECONDS)
    done = sfumato(*arguments)
    signal.alarm(0)
    assert done.code in {0, 2, 3, 4}, (arguments, done.text)
    assert "Traceback" not in done.text
    assert "Warning" not in done.err
    return done


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("releases")
    table = people()
    pq.write_table(table.append_column("x", pa.array([i / 7 for i in range(table.num_rows)])), here / "t.parquet")
    for name, options in METHODS.items():
        done = sfumato("publish", here / "t.parquet", here / name, *ROLES, "--method", name, *options, "--seed", "1")
        assert done.code == 0, done.text
    return here


# --- manifests ----------------------------------------------------------------------------------------------------

REPLACEMENTS: tuple[Any, ...] = (
    1_500_000_000, -1, 0, 1, 2**63, 2**31, 10**400, 1e308, -1e-308, 0.5, True, None, "", "1/0", "1e-999999999",
    "1e999999999", "nan", "x" * 5000, "1/3", [], {}, [[]], [1_500_000_000], {"a": 1}, "\ud800",
)  # fmt: skip


def _leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of a document, inner ones too; of a long list its first two and its last."""
    yield path
    if isinstance(node, dict):
        for key in node:
            yield from _leaves(node[key], (*path, key))
    elif isinstance(node, list):
        for i in sorted({0, 1, len(node) - 1} & set(range(len(node)))):
            yield from _leaves(node[i], (*path, i))


def _changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(document)
    node = made
    for step in path[:-1]:
        node = node[step]
    if value is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return made


@pytest.mark.slow
@pytest.mark.parametrize("method", REGISTRY)
def test_hostile_manifests(method: str, releases: Path, tmp_path: Path) -> None:
    draw = random.Random(f"{SEED} {method}")
    folder = tmp_path / "release"
    shutil.copytree(releases / method, folder)
    whole = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    del whole["guarantee"]["assumptions"], whole["guarantee"]["not_covered"]  # text; they come back below
    places = [p for p in _leaves(whole) if p]
    whole = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    parameters = [p for p in places if p[0] in {"parameters", "units", "columns"}]
    for number in range(12):
        path = draw.choice(parameters if number % 3 else places)
        made = _changed(whole, path, draw.choice((*REPLACEMENTS, ...)))
        (folder / "release.json").write_text(json.dumps(made), encoding="utf-8")
        _calm("inspect", folder)
        _calm("verify", folder, "--test")
        _calm("query", folder, "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease")
        _calm("query", folder, "SELECT sex, AVG(age) AS n FROM release WHERE disease = 'flu' GROUP BY sex")


@pytest.mark.parametrize("name", ["data.parquet", "sensitive.parquet"])
def test_a_small_file_of_many_rows_is_not_read(name: str, releases: Path, tmp_path: Path) -> None:
    """20 million rows in a file of a few hundred kilobytes."""
    source = releases / "anatomy"
    folder = tmp_path / "release"
    shutil.copytree(source, folder)
    with duckdb.connect() as con:
        row = f"(SELECT * FROM read_parquet('{source / name}') LIMIT 1)"
        con.execute(
            f"COPY (SELECT row.* FROM {row} AS row, range(20000000)) TO '{folder / name}' "
            "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20000000)"
        )
    assert (folder / name).stat().st_size < 300_000
    forged(folder, tmp_path / "forged")
    for command in (("inspect",), ("verify", "--test"), ("query", "SELECT COUNT(*) AS n FROM release")):
        assert "too small" in _calm(command[0], tmp_path / "forged", *command[1:]).err


# --- questions ----------------------------------------------------------------------------------------------------

QUESTIONS = (
    "SELECT COUNT(*) FROM release WHERE disease",
    "SELECT COUNT(*) FROM release WHERE NOT disease",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' OR age",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' OR sex",
    "SELECT COUNT(*) FILTER (WHERE disease) FROM release",
    "SELECT SUM(CASE WHEN disease THEN 1 ELSE 0 END) FROM release",
    "SELECT disease, COUNT(*) FROM release GROUP BY (disease, 1)",
    "SELECT SUM('inf'::DOUBLE) FROM release",
    "SELECT AVG('nan'::DOUBLE) FROM release WHERE disease = 'flu'",
    "SELECT MIN('inf'::DOUBLE) FROM release",
    "SELECT SUM(1e400) FROM release",
    "SELECT SUM(x * 1e308) AS n FROM release WHERE disease = 'flu'",
    "SELECT SUM(CASE WHEN disease = 'flu' THEN 1e400 ELSE 0 END) AS n FROM release",
    "SELECT SUM(CASE WHEN disease = 'flu' THEN 1e200 ELSE 0 END) AS n FROM release",
    "SELECT DATE '2020-01-01' + 2000000000, COUNT(*) FROM release GROUP BY 1",
    "SELECT DATE '2020-01-01' + INTERVAL 100000 YEAR, COUNT(*) FROM release GROUP BY 1",
    "SELECT COUNT(*) FROM release GROUP BY CUBE(" + ", ".join(f"age // {i}" for i in range(1, 25)) + ")",
    "SELECT COUNT(*) FROM release GROUP BY " + ", ".join(f"ROLLUP(age // {i}, sex, x)" for i in range(1, 9)),
    "SELECT COUNT(*) FROM release WHERE x = 1e-999999999",
    "SELECT COUNT(*) FROM release LIMIT 99999999999999999999",
    "SELECT COUNT(*) FROM release WHERE " + "(" * 500 + "age = 1" + ")" * 500,
    "SELECT COUNT(*) FROM release WHERE " + "NOT " * 500 + "age = 1",
    "SELECT repeat(sex, 100000000), COUNT(*) FROM release GROUP BY 1",
    "SELECT COUNT(*) AS \"\" FROM release",
)  # fmt: skip
WORDS = re.findall(r"\S+", """
    SELECT FROM release WHERE GROUP BY ORDER HAVING LIMIT COUNT(*) SUM( AVG( MIN( ) ( , disease age sex x number = < >
    'flu' 'f' 1 -1 1e400 NULL TRUE AND OR NOT IN BETWEEN LIKE IS CASE WHEN THEN ELSE END FILTER AS n * / // % :: DOUBLE
    DATE CUBE( ROLLUP( DISTINCT . ; -- /* " ' [ ] { } ? $1 ::INTEGER STD_ERROR( INTERVAL_LOW( OFFSET ALL ||
""")  # fmt: skip
WHOLE = "SELECT disease, COUNT(*) AS n FROM release WHERE age > 30 AND disease = 'flu' GROUP BY disease"


@pytest.mark.parametrize("method", ["uniform", "anatomy", "target-distribution", "l-diversity"])
def test_hostile_questions(method: str, releases: Path) -> None:
    for text in QUESTIONS:
        _calm("query", releases / method, text)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_questions_of_random_words(method: str, releases: Path) -> None:
    draw = random.Random(SEED)
    for number in range(60):
        words = WHOLE.split() if number % 2 else ["SELECT", "COUNT(*)", "AS", "n", "FROM", "release", "WHERE"]
        for _ in range(draw.randint(1, 5)):
            words.insert(draw.randint(0, len(words)), draw.choice(WORDS))
        if draw.random() < 0.5:
            del words[draw.randrange(len(words))]
        _calm("query", releases / method, " ".join(words))


# --- options --------------------------------------------------------------------------------------------------------

NUMBERS = (
    "1e-999999999",
    "1e999999999",
    "-0",
    "1/0",
    "0x10",
    "inf",
    "nan",
    "1_0",
    "",
    " ",
    "9" * 5000,
    "1/" + "9" * 5000,
)


@pytest.mark.parametrize("method", REGISTRY)
def test_hostile_options(method: str, releases: Path, tmp_path: Path) -> None:
    """Every option of the method with every odd number: refused, or meant; never a hang."""
    options = METHODS[method]
    for place in range(1, len(options), 2):
        for odd in NUMBERS:
            given = [*options[:place], odd, *options[place + 1 :]]
            done = _calm("plan", releases / "t.parquet", *ROLES, "--method", method, *given)
            assert len(done.err.strip().splitlines()) <= 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory", ["1KB", "1MB", "-1", "-1GB", "0", "nan", "1e999GB", ""])
def test_too_little_memory_is_said(memory: str, releases: Path) -> None:
    options = ("--method", "uniform", *METHODS["uniform"], f"--memory={memory}")
    done = _calm("plan", releases / "t.parquet", *ROLES, *options)
    assert done.code == 2
    assert "memory" in done.err


# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "kind"),
    [("uniform", pa.date32()), ("l-diversity", pa.timestamp("us")), ("randomized-response", pa.timestamp("s"))],
)
def test_dates_that_python_cannot_hold(method: str, kind: pa.DataType, tmp_path: Path) -> None:
    far = 4_000_000 if kind == pa.date32() else 300_000_000_000 * (1_000_000 if kind == pa.timestamp("us") else 1)
    days = pa.array([0, 1, 2, far] * 50, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    sensitive = days if method == "uniform" else ["a", "b", "c", "d"] * 50
    pq.write_table(pa.table({"s": sensitive, "q": days}), tmp_path / "t.parquet")
    options = {"uniform": ("--rho1", "1/3", "--rho2", "1/2"), "l-diversity": ("--l", "2")}.get(
        method, ("--risk", "1/2")
    )
    done = _calm(
        "publish", tmp_path / "t.parquet", tmp_path / "out", "--sa", "s", "--qi", "q", "--method", method, *options
    )
    assert done.code == 2
    assert "9999" in done.err
