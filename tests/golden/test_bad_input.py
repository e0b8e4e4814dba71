"""Bad input through the real command: exit code 2 or 3, one line that says what to do, nothing written.

The text of every message is in errors/<case>.txt; `make golden` rewrites them, the diff is read in review.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import sfumato
from tables import people

GOLDEN = Path(__file__).parent / "errors"
CELLS = ("bronchitis", "zqxjmark-", "eczema")  # of the table; no message may quote them
PUBLISH = "publish t.parquet out --sa disease --qi age,sex --keep number --drop name"
UNIFORM = "--method uniform --rho1 1/5 --rho2 1/3"
ANATOMY = "--method anatomy --l 3"
CSV = f"out --sa s --rest quasi {UNIFORM}"

PUBLISHING = {
    # roles
    "unassigned-column": (2, f"publish t.parquet out --sa disease --qi age {UNIFORM}"),
    "unknown-column": (2, f"publish t.parquet out --sa desease --rest quasi {UNIFORM}"),
    "unknown-dropped-column": (2, f"{PUBLISH},zip {UNIFORM}"),
    "two-roles": (2, f"{PUBLISH} --qi disease {UNIFORM}"),
    "no-sensitive-column": (2, f"publish t.parquet out --rest quasi {UNIFORM}"),
    # parameters
    "rho1-not-below-rho2": (2, f"{PUBLISH} --method uniform --rho1 1/3 --rho2 1/3"),
    "rho1-zero": (2, f"{PUBLISH} --method uniform --rho1 0 --rho2 1/3"),
    "rho1-divided-by-zero": (2, f"{PUBLISH} --method uniform --rho1 1/0 --rho2 1/3"),
    "rho1-not-a-number": (2, f"{PUBLISH} --method uniform --rho1 abc --rho2 1/3"),
    "rho1-nan": (2, f"{PUBLISH} --method uniform --rho1 nan --rho2 1/3"),
    "rho2-one": (2, f"{PUBLISH} --method uniform --rho1 1/5 --rho2 1"),
    "rho1-negative": (2, f"{PUBLISH} --method uniform --rho1 -1/5 --rho2 1/3"),
    "parameter-missing": (2, f"{PUBLISH} --method uniform --rho1 1/5"),
    "parameter-of-another-method": (2, f"{PUBLISH} {UNIFORM} --l 3"),
    "unknown-method": (2, f"{PUBLISH} --method unifrom --rho1 1/5 --rho2 1/3"),
    "method-missing": (2, PUBLISH),
    "l-one": (2, f"{PUBLISH} --method anatomy --l 1"),
    "l-not-whole": (2, f"{PUBLISH} --method anatomy --l 2.5"),
    "unknown-engine": (2, f"{PUBLISH} {UNIFORM} --engine abacus"),
    "seed-not-whole": (2, f"{PUBLISH} {UNIFORM} --seed 1.5"),
    "memory-not-a-size": (2, f"{PUBLISH} {UNIFORM} --memory much"),
    "unknown-role-of-the-rest": (2, f"publish t.parquet out --sa disease --rest some {UNIFORM}"),
    "unknown-option": (2, f"{PUBLISH} {UNIFORM} --colour blue"),
    # what cannot be reached
    "no-protected-value": (3, f"{PUBLISH} --method uniform --rho1 1/100 --rho2 1/3"),
    "l-too-large": (3, f"{PUBLISH} --method anatomy --l 7"),
    "one-distinct-value": (3, f"publish one.parquet out --sa s {UNIFORM}"),
    "rhos-too-close": (3, f"{PUBLISH} --method uniform --rho1 1/2 --rho2 5001/10000"),
    # the table
    "null-sensitive-value": (2, f"publish null.parquet out --sa s {UNIFORM}"),
    "null-sensitive-value-anatomy": (2, f"publish null.parquet out --sa s {ANATOMY}"),
    "no-rows": (2, f"publish norows.parquet out --sa s {UNIFORM}"),
    "empty-file": (2, f"publish empty.csv {CSV}"),
    "header-only": (2, f"publish header.csv {CSV}"),
    "ragged-csv": (2, f"publish ragged.csv {CSV}"),
    "unbalanced-quote": (2, f"publish quote.csv {CSV}"),
    "not-utf-8": (2, f"publish latin1.csv {CSV}"),
    "not-utf-8-header": (2, f"publish latin1header.csv {CSV}"),
    "doubled-name": (2, f"publish doubled.csv {CSV}"),
    "not-parquet": (2, f"publish broken.parquet {CSV}"),
    "unknown-kind-of-file": (2, f"publish table.xlsx {CSV}"),
    "folder-without-parquet": (2, f"publish folder {CSV}"),
    "missing-file": (2, f"publish nowhere.parquet {CSV}"),
    "glob-without-match": (2, f"publish 'x*.parquet' {CSV}"),
    "delimiter-too-long": (2, f"publish semicolon.csv {CSV} --delimiter ';;'"),
    "domain-of-unknown-column": (2, f"{PUBLISH} {UNIFORM} --domain x=header.csv"),
    "domain-file-missing": (2, f"{PUBLISH} {UNIFORM} --domain disease=nowhere.txt"),
    # the output
    "out-exists": (2, f"publish t.parquet taken --sa disease --rest quasi {UNIFORM}"),
    "out-is-a-file": (2, f"publish t.parquet header.csv --sa disease --rest quasi {UNIFORM}"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good and bad tables."""
    here = tmp_path_factory.mktemp("bad")
    pq.write_table(people().rename_columns(["name", "number", "age", "sex", "disease"]), here / "t.parquet")
    pq.write_table(pa.table({"s": ["a"] * 20}), here / "one.parquet")
    pq.write_table(pa.table({"s": ["a", "b", "c", "d", "e", "f", None] * 20}), here / "null.parquet")
    pq.write_table(pa.table({"s": pa.array([], pa.string())}), here / "norows.parquet")
    (here / "empty.csv").write_bytes(b"")
    (here / "header.csv").write_bytes(b"s,age\n")
    (here / "ragged.csv").write_bytes(b"s,age\n" + b"eczema,1\ncold,2\n" * 50 + b"eczema,3,4\n")
    (here / "quote.csv").write_bytes(b's,age\n"eczema,1\ncold,2\n')
    (here / "latin1.csv").write_bytes(b"s,age\n" + b"cold,1\nbronchitis,2\n" * 50 + b"gr\xfcn,1\n")
    (here / "latin1header.csv").write_bytes(b"s,gr\xf6sse\ncold,1\n")
    (here / "doubled.csv").write_bytes(b"s,age,age\ncold,1,2\n")
    (here / "semicolon.csv").write_bytes(b"s;age\ncold;1\n")
    (here / "broken.parquet").write_bytes(b"PAR1 but not really PAR1")
    (here / "table.xlsx").write_bytes(b"PK\x03\x04")
    (here / "folder").mkdir()
    (here / "folder" / "note.txt").write_text("nothing")
    (here / "taken").mkdir()
    return here


@pytest.mark.parametrize("case", PUBLISHING)
def test_publish_refuses(case: str, folder: Path, golden: Callable[[Path, str], None]) -> None:
    code, command = PUBLISHING[case]
    before = _listing(folder)
    done = sfumato(*shlex.split(command), cwd=folder)
    shown = re.sub(r"(?<=; methods: ).*", "...", done.err.rstrip())  # the list grows
    golden(GOLDEN / f"{case}.txt", f"$ sfumato {command}\n{shown}\nexit code {done.code}\n")
    assert done.code == code
    assert done.out == ""
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not [cell for cell in CELLS if cell in done.err]
    assert _listing(folder) == before


def _listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("s\na\n")
    file.chmod(0)
    done = sfumato("publish", file, tmp_path / "out", "--sa", "s", *shlex.split(UNIFORM))
    assert done.code == 2
    assert len(done.err.strip().splitlines()) == 1


QUESTIONS = {
    "unknown-value": "SELECT COUNT(*) FROM release WHERE disease = 'flue'",
    "unknown-value-in-list": "SELECT COUNT(*) FROM release WHERE disease IN ('flu', 'goat')",
    "unknown-column-asked": "SELECT COUNT(*) FROM release WHERE diseese = 'flu'",
    "dropped-column-asked": "SELECT COUNT(*) FROM release WHERE name = 'x'",
    "unknown-table": "SELECT COUNT(*) FROM patients",
    "no-aggregate": "SELECT age FROM release",
    "star": "SELECT * FROM release",
    "subquery": "SELECT COUNT(*) FROM (SELECT * FROM release) AS t",
    "join": "SELECT COUNT(*) FROM release JOIN release AS r USING (age)",
    "union": "SELECT COUNT(*) FROM release UNION SELECT 1",
    "two-statements": "SELECT COUNT(*) FROM release; DROP TABLE release",
    "not-a-select": "DELETE FROM release",
    "window": "SELECT COUNT(*) OVER (PARTITION BY sex) FROM release",
    "file-function": "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "function-in-where": "SELECT COUNT(*) FROM release WHERE getenv('HOME') = 'x'",
    "distinct": "SELECT COUNT(DISTINCT disease) FROM release",
    "syntax": "SELECT COUNT(* FROM release",
    "empty-question": "",
    "comparison-of-types": "SELECT COUNT(*) FROM release WHERE age = 'old'",
    "column-not-grouped": "SELECT sex, COUNT(*) FROM release",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("release")
    pq.write_table(people().rename_columns(["name", "number", "age", "sex", "disease"]), here / "t.parquet")
    done = sfumato(*shlex.split(f"{PUBLISH} {UNIFORM} --seed 1"), cwd=here)
    assert done.code == 0, done.text
    return here


@pytest.mark.parametrize("case", QUESTIONS)
def test_query_refuses(case: str, release: Path, golden: Callable[[Path, str], None]) -> None:
    """A question may have a caret under it, hence more than one line; never a number, never a traceback."""
    done = sfumato("query", "out", QUESTIONS[case], cwd=release)
    golden(GOLDEN / f"{case}.txt", f"{QUESTIONS[case]}\n\n{done.err.rstrip()}\nexit code {done.code}\n")
    assert done.code == 2
    assert done.out == ""
    assert "Traceback" not in done.err


@pytest.mark.parametrize("level", ["0", "1", "1.5", "-0.5", "nan", "x"])
def test_query_refuses_a_level(level: str, release: Path) -> None:
    done = sfumato("query", "out", "SELECT COUNT(*) FROM release", "--level", level, cwd=release)
    assert done.code == 2
    assert "level" in done.err
    assert "Traceback" not in done.err
