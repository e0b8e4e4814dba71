"""Looking before deciding, roles in a file, and what `--rest` never sweeps in."""

from __future__ import annotations

import collections
import datetime
import json
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from commands import sfumato
from sfumato.errors import SpecError
from sfumato.model.private import Filled
from sfumato.publishing.custodian import near_unique, read_roles, roles_text
from visits import MARK, visits

ROWS = 400
ODD = 'hours, "per" week'


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(8)
    day = datetime.date(1950, 1, 1)
    return pa.table(
        {
            "customer_id": [f"{MARK}{i}" for i in range(ROWS)],
            "patient_nbr": rng.integers(0, 150, ROWS),
            "dateOfBirth": [day + datetime.timedelta(days=int(d)) for d in rng.integers(0, 15000, ROWS)],
            "remarks": [f"{MARK} came on foot and left again" for _ in range(ROWS)],
            "country": ["x"] * ROWS,
            "empty": pa.array([None] * ROWS, pa.string()),
            ODD: rng.integers(0, 8, ROWS),
            "sex": pa.array(np.where(rng.random(ROWS) < 0.5, "f", "m"), mask=rng.random(ROWS) < 0.1),
            "disease": np.array(["angina", "cold", "flu", "gout"])[rng.choice(4, ROWS, p=[0.4, 0.22, 0.2, 0.18])],
        }
    )


def test_suggested_roles_say_why(table: pa.Table) -> None:
    found = {c.name: c for c in sf.look(table).columns}
    for name, role, why in (
        ("customer_id", "drop", "near-unique"),
        ("patient_nbr", "person", "repeat"),
        ("dateOfBirth", "quasi", "date of birth"),
        ("remarks", "drop", "constant" if len(set(table["remarks"].to_pylist())) == 1 else "free text"),
        ("country", "drop", "constant"),
        ("empty", "drop", "no row"),
        ("sex", "quasi", "others may know"),
    ):
        assert found[name].suggested == role, name
        assert why in found[name].why, name
    assert found["sex"].missing == table["sex"].null_count
    assert found["disease"].distinct == 4
    assert found["customer_id"].near_unique


def test_free_text_is_told_from_labels(table: pa.Table) -> None:
    text = [f"came {i % 7} times and went home on day {i % 31}" for i in range(ROWS)]
    found = {c.name: c for c in sf.look(table.set_column(3, "remarks", pa.array(text))).columns}
    assert "free text" in found["remarks"].why


def test_values_are_shown_only_when_asked_for(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "t.parquet")
    plain = sfumato("look", tmp_path / "t.parquet", "--qi", "sex", "--sa", "disease", "--rho1", "1/4")
    assert plain.code == 0
    assert MARK not in plain.text
    assert "flu" not in plain.text
    as_json = sfumato("look", tmp_path / "t.parquet", "--json")
    assert MARK not in as_json.text
    assert all("examples" not in column for column in json.loads(as_json.out)["columns"])
    shown = sfumato("look", tmp_path / "t.parquet", "--show-values")
    assert "angina, cold, flu" in shown.out


@pytest.mark.parametrize("rho1", ["1/4", "3/10", "1/10"])
def test_linkage_is_what_a_recount_gives(table: pa.Table, rho1: str) -> None:
    quasi = (ODD, "sex")
    found = sf.look(table, quasi=quasi, sensitive="disease", rho1=rho1).linkage
    assert found is not None
    rows = [tuple(row[c] for c in quasi) for row in table.to_pylist()]
    values = table["disease"].to_pylist()
    size = collections.Counter(rows)
    both, share = collections.Counter(zip(rows, values, strict=True)), collections.Counter(values)
    limit = Fraction(rho1)
    sharp = {
        cell for (cell, value), n in both.items() if Fraction(share[value], ROWS) <= limit < Fraction(n, size[cell])
    }
    assert found.cells == len(size)
    assert found.unique_rows == sum(n == 1 for n in size.values())
    assert found.rows_in_small_cells == sum(n for n in size.values() if n < 5)
    assert found.sharpened_rows == sum(size[cell] for cell in sharp)


def test_quasi_identifiers_alone_are_counted(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "t.parquet")
    done = sfumato("look", tmp_path / "t.parquet", "--qi", "patient_nbr,sex", "--json")
    assert done.code == 0, done.text
    size = collections.Counter(zip(table["patient_nbr"].to_pylist(), table["sex"].to_pylist(), strict=True))
    linkage = json.loads(done.out)["linkage"]
    assert linkage["cells"] == len(size)
    assert linkage["unique_rows"] == sum(n == 1 for n in size.values())
    assert linkage["rows_in_small_cells"] == sum(n for n in size.values() if n < 5)


def test_plan_prints_how_far_people_are_told_apart(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "t.parquet")
    options = ("--sa", "disease", "--qi", "sex", "--rest", "drop", "--rho1", "1/3", "--rho2", "1/2")
    looked = sf.look(table, quasi=["sex"], sensitive="disease", rho1="1/3").linkage
    assert looked is not None
    done = sfumato("plan", tmp_path / "t.parquet", *options)
    assert f"{looked.unique_rows:,} of {ROWS:,} rows are unique on the quasi-identifiers" in done.out
    document = json.loads(sfumato("plan", tmp_path / "t.parquet", *options, "--json").out)["quasi_identifiers"]
    assert document["cells"] == looked.cells == 3
    assert document["rows_below_5"] == looked.rows_in_small_cells
    assert document["sharpened"] == looked.sharpened_share


@pytest.mark.parametrize(
    "bad",
    [
        {"rho1": "1/4"},
        {"quasi": ["nobody"]},
        {"sensitive": "nobody"},
        {"sensitive": "disease", "quasi": ["sex"], "rho1": "2"},
        {"sensitive": "disease", "quasi": ["disease"]},
    ],
)
def test_bad_looks_are_refused(table: pa.Table, bad: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        sf.look(table, **bad)


# --- roles in a file ---------------------------------------------------------------------------------------------


def test_a_written_roles_file_publishes(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "t.parquet")
    file = tmp_path / "roles.toml"
    look = sfumato("look", tmp_path / "t.parquet", "--sa", "disease", "--write-roles", file)
    assert look.code == 0, look.text
    assert sfumato("look", tmp_path / "t.parquet", "--write-roles", file).code == 2, "an existing file stays"
    text = file.read_text().replace("# [method]", "[method]").replace("# name =", "name =").replace("# rho", "rho")
    file.write_text(
        text.replace("[method]", "max_rows_per_person = 1\n\n[method]").replace('rho1 = "1/5"', "rho1 = 0.3")
    )
    assert ODD in tomllib.loads(file.read_text())["roles"]["quasi"]
    done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", "--roles", file, "--seed", 1)
    assert done.code == 0, done.text
    release = sf.open_release(tmp_path / "out")
    assert release.plan.rho1 == Fraction(3, 10)
    assert release.manifest.rows == len(set(table["patient_nbr"].to_pylist()))
    assert ODD in {c.name for c in release.manifest.columns}


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5, unique=True))
def test_any_name_survives_the_file(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    file = tmp_path_factory.mktemp("roles") / "roles.toml"
    text = roles_text({"sensitive": names[:1], "quasi": names[1:]}, {names[0]: "a reason"}, "uniform")
    file.write_text(text, encoding="utf-8", newline="")
    found = read_roles(str(file)).roles
    assert found.sensitive == tuple(names[:1])
    assert found.quasi == tuple(names[1:])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[roles", "TOML"),
        ("[columns]\na = 1", '"columns"'),
        ('[roles]\nsecret = ["a"]', '"secret"'),
        ("[roles]\nsensitive = 3", "list"),
        ('[roles]\nsensitive = ["a"]\nmax_rows_per_person = "2"', "whole number"),
        ('[roles]\nsensitive = ["a"]\n[method]\nrho1 = "1/5"', "does not name the method"),
        ("[method]\nname = 'uniform'", r"\[roles\]"),
        ("[roles]\nquasi = []", "--sa"),
    ],
)
def test_bad_roles_files_are_refused_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "roles.toml").write_text(text)
    with pytest.raises(SpecError, match=says):
        read_roles(str(tmp_path / "roles.toml"))


@pytest.mark.parametrize(
    "more",
    [
        ("--sa", "disease"),
        ("--max-rows-per-person", "1"),
        ("--method", "anatomy"),
        ("--rho1", "1/4"),
        ("--rest", "drop"),
    ],
)
def test_what_the_file_says_is_not_said_again(more: tuple[str, ...], table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "t.parquet")
    file = tmp_path / "roles.toml"
    file.write_text(
        '[roles]\nsensitive = "disease"\nrest = "drop"\n[method]\nname = "uniform"\nrho1 = "1/4"\nrho2 = "1/2"\n'
    )
    assert sfumato("plan", tmp_path / "t.parquet", "--roles", file).code == 0
    done = sfumato("plan", tmp_path / "t.parquet", "--roles", file, *more)
    assert done.code == 2
    assert more[0] in done.err


# --- what --rest never sweeps in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", ["quasi", "keep"])
def test_near_unique_columns_must_be_named(rest: str, table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "t.parquet")
    options = ("--sa", "disease", "--rest", rest, "--rho1", "1/3", "--rho2", "1/2", "--seed", 1)
    done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *options)
    assert done.code == 2
    assert '"customer_id", "dateOfBirth"' in done.err
    assert "--drop customer_id,dateOfBirth" in done.err
    fixed = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *options, "--drop", "customer_id,dateOfBirth")
    assert fixed.code == 0, fixed.text
    named = sfumato(
        "publish", tmp_path / "t.parquet", tmp_path / "b", *options, "--qi", "customer_id", "--keep", "dateOfBirth"
    )
    assert named.code == 0, named.text


@pytest.mark.parametrize(
    ("rows", "distinct", "near"), [(20, 20, False), (21, 21, True), (100, 90, True), (100, 89, False), (0, 0, False)]
)
def test_near_unique_starts_at_nine_tenths_of_more_than_twenty_rows(rows: int, distinct: int, near: bool) -> None:
    assert near_unique(Filled(rows=rows, distinct=distinct)) is near


def test_a_person_column_is_not_swept_in() -> None:
    one_each = visits(people=200, most=1)
    release = sf.publish(
        one_each,
        roles=sf.Roles(sensitive="race", person="patient", rest="quasi"),
        method=sf.UniformPerturbation(rho1="1/5", rho2="1/2"),
        seed=1,
    )
    assert [c.name for c in release.manifest.columns] == ["age", "race"]
