"""What is shown is what is there: no raw value with a soothing sentence, no text that a terminal or spreadsheet obeys,
no statement that looks verified and is not."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import METHODS, sfumato
from forging import forged
from sfumato.cli.prompt import answer as prompt_answer
from sfumato.cli.prompt import command as prompt_command
from sfumato.errors import SpecError
from sfumato.methods import REGISTRY
from tables import people

# --- randomised response that randomises nothing -----------------------------------------------------------------

ROLES = sf.Roles(sensitive="disease", quasi=["sex"], rest="drop")


@pytest.mark.parametrize("keep", [{"disease": 1}, {"disease": 1, "sex": "0.7"}, {"sex": "0.7"}, {"disease": "1.0"}])
def test_a_sensitive_column_is_not_published_as_it_is(keep: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="published as it is"):
        sf.publish(people(), roles=ROLES, method=sf.RandomizedResponse(keep=keep))


def test_the_same_on_the_command_line(tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    roles = ("--sa", "disease", "--qi", "sex", "--rest", "drop", "--method", "randomized-response")
    done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *roles, "--keep-probability", "disease=1")
    assert done.code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("keep", [{"sex": "0.7"}, {"disease": 1, "sex": "0.7"}, {"disease": 1, "sex": 1}])
def test_scope_qi_says_what_it_publishes(keep: dict[str, Any]) -> None:
    release = sf.publish(people(), roles=ROLES, method=sf.RandomizedResponse(scope="qi", keep=keep))
    assert "nothing bounds the loss: disease" in release.guarantee.statement
    assert release.guarantee.parameters["epsilon"]["disease"] == "infinite"
    assert release.guarantee.parameters["epsilon_total"] == "infinite"


def test_a_randomised_column_has_a_finite_loss() -> None:
    release = sf.publish(people(), roles=ROLES, method=sf.RandomizedResponse(keep={"disease": "0.7"}))
    assert "nothing bounds" not in release.guarantee.statement
    assert 0 < release.guarantee.parameters["epsilon"]["disease"] <= release.guarantee.parameters["epsilon_total"] < 10


# --- terminals and spreadsheets ------------------------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07"
NASTY = (f"red{ESCAPE}\x1b[31m", "a\x9b2Jb", "x\rfake", "two\nlines", "tab\there", "\u202egnp.exe", "\x7f", "plain")
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1")


def _obeyed(text: str, *, newlines: bool = True) -> list[str]:
    unseen = {*map(chr, range(32)), *map(chr, range(127, 160)), "\u202e"}
    return sorted(set(text) & (unseen - ({"\n"} if newlines else set())))


def _nasty() -> pa.Table:
    values = (*NASTY, *FORMULAS)
    n = 20 * len(values)
    return pa.table(
        {"s": ["a", "b", "c", "d"] * (n // 4), "note": list(values) * 20, f"q{ESCAPE}": ["x", "y"] * (n // 2)}
    )


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("nasty")
    roles = sf.Roles(sensitive="s", insensitive=["note"], rest="quasi")
    sf.publish(_nasty(), here / "out", roles=roles, method=sf.UniformPerturbation(rho1="1/3", rho2="1/2"))
    return here / "out"


QUESTION = "SELECT note, COUNT(*) AS n FROM release GROUP BY note"


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", QUESTION),
        ("query", QUESTION, "--format", "csv"),
        ("query", QUESTION, "--format", "json"),
        ("query", QUESTION, "--explain"),
        ("query", f'SELECT "q{ESCAPE}", COUNT(*) AS "n{ESCAPE}" FROM release GROUP BY 1'),
        ("query", f'SELECT "q{ESCAPE}", COUNT(*) AS "n{ESCAPE}" FROM release GROUP BY 1', "--format", "csv"),
        ("query", f"SELECT COUNT(*) FROM release WHERE s = '{ESCAPE}'"),
        ("query", f'SELECT "{ESCAPE}" FROM release'),
        ("inspect",),
        ("inspect", "--json"),
        ("verify",),
    ],
)
def test_nothing_that_a_terminal_obeys_is_printed(arguments: tuple[str, ...], nasty: Path) -> None:
    command, *rest = arguments
    done = sfumato(command, nasty, *rest)
    assert done.code in {0, 2}
    assert done.text
    assert not _obeyed(done.text)


def test_the_prompt_and_the_library_print_the_same_way(nasty: Path) -> None:
    release = sf.open_release(nasty)
    for text in (
        prompt_answer(release, QUESTION, level=0.95),
        str(release.sql(QUESTION)),
        prompt_command(release, ".schema"),
    ):
        assert not _obeyed(text)
    rows = str(release.sql(QUESTION)).splitlines()
    assert len(rows) == 1 + len(NASTY) + len(FORMULAS)  # a value with a line end makes no second row


def test_json_is_still_the_same_document(nasty: Path) -> None:
    rows = json.loads(sfumato("query", nasty, QUESTION, "--format", "json").out)["rows"]
    assert {row["note"] for row in rows} == {*NASTY, *FORMULAS}


def test_no_cell_of_csv_is_a_formula(nasty: Path) -> None:
    text = sfumato("query", nasty, QUESTION, "--format", "csv").out
    cells = [row["note"] for row in csv.DictReader(io.StringIO(text))]
    assert len(cells) == len(NASTY) + len(FORMULAS)
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert "'=cmd|' /C calc'!A0" in cells
    negative = sf.open_release(nasty).sql("SELECT SUM(-1) AS n FROM release").to_csv().splitlines()[1]
    assert negative.startswith("-")  # a number stays a number


def test_a_csv_header_is_no_formula_either(nasty: Path) -> None:
    text = sf.open_release(nasty).sql('SELECT COUNT(*) AS "=1+1" FROM release').to_csv()
    assert text.startswith("'=1+1,")


def test_messages_about_a_strangers_manifest_are_plain(nasty: Path, tmp_path: Path) -> None:
    def lie(manifest: dict[str, Any]) -> None:
        manifest["guarantee"]["statement"] = f"safe{ESCAPE}\n\nok  everything verified"
        manifest["guarantee"]["assumptions"] = [f"none{ESCAPE}"]

    folder = forged(nasty, tmp_path / "forged", manifest=lie)
    for command in ("inspect", "verify"):
        done = sfumato(command, folder)
        assert not _obeyed(done.text)
        assert not [line for line in done.text.splitlines() if line.startswith("ok  everything")]


# --- inspect -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", REGISTRY)
def test_inspect_marks_what_it_has_not_verified(method: str, tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    roles = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop", "--method", method, *METHODS[method])
    assert sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *roles).code == 0
    assert "nothing of it is verified" in sfumato("inspect", tmp_path / "out").out
    assert json.loads(sfumato("inspect", tmp_path / "out", "--json").out)["verified"] is False
    assert "verified" in prompt_command(sf.open_release(tmp_path / "out"), ".guarantee")
