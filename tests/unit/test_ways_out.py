"""A refusal names the way out, and the way out works."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from commands import SRC, sfumato
from sfumato.cli.options import RoleOptions
from sfumato.errors import DataError, PlanError, SpecError
from sfumato.methods import REGISTRY
from sfumato.publishing.custodian import SAID_BY, read_roles

LINES = ["patient,age,disease", *(f"p{i // 2},{20 + i % 50},{('flu', 'gout', 'cold', '')[i % 4]}" for i in range(400))]
PLAN = ("--rho1", "1/2", "--rho2", "3/4")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    file = tmp_path / "visits.csv"
    file.write_text("\n".join(LINES), encoding="utf-8")
    return file


def test_every_role_option_has_its_line_in_the_file(tmp_path: Path) -> None:
    """So that whoever is told to say it in the file knows how."""
    assert set(SAID_BY) == {field.name for field in dataclasses.fields(RoleOptions)} - {"roles_file"}
    for line in SAID_BY.values():
        others = [other for other in ('sensitive = ["s"]', 'person = "p"') if other.split()[0] != line.split()[0]]
        (tmp_path / "roles.toml").write_text("\n".join(["[roles]", line, *others]))
        read_roles(str(tmp_path / "roles.toml"))


def test_the_suggested_roles_lead_to_a_release(visits: Path, tmp_path: Path) -> None:
    """look, its roles file, the refusal, the line that the refusal names, a release."""
    file = tmp_path / "roles.toml"
    assert sfumato("look", visits, "--sa", "disease", "--write-roles", file).code == 0
    publish = ("publish", visits, tmp_path / "out", "--roles", file, "--null-as-value", *PLAN)
    assert "--max-rows-per-person 1" in sfumato(*publish).err
    refused = sfumato(*publish, "--max-rows-per-person", 1).err
    assert "in the file by max_rows_per_person = 1" in refused
    text = file.read_text(encoding="utf-8")
    assert text.count("# max_rows_per_person = 1") == 1
    file.write_text(text.replace("# max_rows_per_person = 1", "max_rows_per_person = 1"), encoding="utf-8")
    done = sfumato(*publish)
    assert done.code == 0, done.text


@pytest.mark.parametrize(
    ("values", "rows", "missing"), [("flu gout cold", 100, True), ("flu", 300, True), ("flu gout", 200, True)]
)
def test_rows_outside_a_domain_are_counted(visits: Path, tmp_path: Path, values: str, rows: int, missing: bool) -> None:
    """Rows, not different values; a missing one is told, and how a file lists it."""
    (tmp_path / "codes.txt").write_text("\n".join(values.split()) + "\n")
    options = ("--sa", "disease", "--rest", "drop", "--null-as-value", "--domain", f"disease={tmp_path / 'codes.txt'}")
    done = sfumato("plan", visits, *options, *PLAN)
    assert done.code == 2
    assert f'{rows} rows of "disease" hold a value outside the domain' in done.err
    assert ("an empty line of the file" in done.err) is missing
    (tmp_path / "codes.txt").write_text("flu\ngout\ncold\n\n")
    assert sfumato("plan", visits, *options, *PLAN).code == 0


def test_one_row_outside_a_domain() -> None:
    table = pa.table({"disease": ["flu", "gout"] * 40 + ["cold"]})
    with pytest.raises(
        DataError, match=r'^1 row of "disease" holds a value outside the domain; it must list every value that occurs$'
    ):
        sf.publish(
            table,
            roles=sf.Roles(sensitive="disease"),
            method=sf.UniformPerturbation(rho1="1/2", rho2="3/4"),
            domains={"disease": ["flu", "gout"]},
        )


def test_a_domain_file_in_another_encoding(visits: Path, tmp_path: Path) -> None:
    (tmp_path / "codes.txt").write_bytes("Röteln\n".encode("latin-1"))
    done = sfumato("plan", visits, "--sa", "disease", "--domain", f"disease={tmp_path / 'codes.txt'}", *PLAN)
    assert "must be UTF-8 text" in done.err


def test_verify_reads_the_truth_as_publish_read_the_table(tmp_path: Path) -> None:
    rows = "".join(f"{20 + i % 50};{('Röteln', 'Gicht', 'k.A.')[i % 3]}\n" for i in range(300))
    (tmp_path / "t.csv").write_bytes(("Alter;Diagnose\n" + rows).encode("latin-1"))
    reading = ("--encoding", "latin-1", "--null", "k.A.")
    out = tmp_path / "out"
    options = ("--sa", "Diagnose", "--qi", "Alter", "--null-as-value", *PLAN)
    done = sfumato("publish", tmp_path / "t.csv", out, *reading, *options)
    assert done.code == 0, done.text
    assert "--encoding" in sfumato("verify", out, "--truth", tmp_path / "t.csv").err
    verified = sfumato("verify", out, "--truth", tmp_path / "t.csv", *reading)
    assert verified.code == 0, verified.text
    assert "truth: 300 of 300 rows" in verified.out
    assert "--truth" in sfumato("verify", out, *reading).err


@pytest.mark.parametrize("name", [n for n in REGISTRY if "rho1" in REGISTRY[n].example.options])
def test_the_least_rho1_that_a_refusal_names_protects_a_value(name: str) -> None:
    """2,909 of 6,000 rows have the rarer value: 0.4848 would be too little."""
    table = pa.table({"disease": ["flu"] * 2_909 + ["gout"] * 3_091})

    def plan(rho1: str) -> None:
        sf.plan(table, roles=sf.Roles(sensitive="disease"), method=REGISTRY[name].spec(rho1=rho1, rho2="3/5"), seed=1)

    with pytest.raises(PlanError, match="protected; rho1 must be at least") as refused:
        plan("2/5")
    plan(str(refused.value).rpartition(" ")[2])
    with pytest.raises(PlanError):
        plan("2908/6000")


def test_a_data_frame_without_its_package() -> None:
    """In a process of its own: another test may have loaded pandas."""
    code = """
import sys

class NotInstalled:
    def find_spec(self, name, *_):
        if name in {"pandas", "polars"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NotInstalled())
import pyarrow as pa
import sfumato as sf
method = sf.UniformPerturbation(rho1="1/2", rho2="3/4")
release = sf.publish(pa.table({"disease": ["flu", "gout"] * 40}), roles=sf.Roles(sensitive="disease"), method=method)
answer = release.sql("SELECT COUNT(*) AS n FROM release")
for frame in (answer.to_pandas, answer.to_polars):
    try:
        frame()
    except sf.errors.SpecError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert [line.partition(";")[0] for line in done.stdout.splitlines()] == [
        f"a data frame of {package} needs {package}: pip install {package}" for package in ("pandas", "polars")
    ], done.stderr


ON_A_RELEASE = {
    "inspect": (),
    "verify": (),
    "query": ("SELECT COUNT(*) AS n FROM release",),
    "export": ("out.csv",),
    "serve": ("--port", "0"),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """release.zip, and nothing else."""
    place = tmp_path_factory.mktemp("archive")
    table = pa.table({"age": [20 + i % 50 for i in range(400)], "disease": ["flu", "gout", "cold", "acne"] * 100})
    method = sf.UniformPerturbation(rho1="1/2", rho2="3/4")
    sf.publish(table, place / "out", roles=sf.Roles(sensitive="disease", quasi=("age",)), method=method)
    return Path(shutil.make_archive(str(place / "release"), "zip", place / "out"))


@pytest.mark.parametrize("command", ON_A_RELEASE)
def test_every_command_takes_an_archive_or_says_what_to_do(command: str, archive: Path, tmp_path: Path) -> None:
    done = sfumato(command, archive, *ON_A_RELEASE[command], cwd=tmp_path)
    if command == "serve":
        assert done.code == 2
        assert done.err == 'error: "release.zip" is a file; unpack it, and serve the folder that it holds\n'
    else:
        assert done.code == 0, done.text


def test_the_name_of_a_method_is_no_specification() -> None:
    with pytest.raises(SpecError, match=r"sf\.SubsetResponse\("):
        sf.plan(pa.table({"disease": ["flu"]}), roles=sf.Roles(sensitive="disease"), method="uniform")


@pytest.mark.parametrize("words", [("help",), ("-h",), ("publish",), ("query",), ("publish", "a", "b", "-x")])
def test_what_cannot_be_parsed_says_where_to_look(words: tuple[str, ...]) -> None:
    done = sfumato(*words)
    assert done.code == 2
    assert "--help" in done.err or "Did you mean" in done.err
