"""Names of columns are typed by one rule, whatever they hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

import sfumato as sf
from commands import METHODS, sfumato
from sfumato.errors import DataError, SpecError
from sfumato.model.names import LONGEST_NAME, assigned, listed, parts, quoted_name
from tables import people

NAME = st.text(st.sampled_from(list("ab ,=\"'\t;ü")), min_size=1, max_size=8)


@given(st.lists(NAME, max_size=4))
def test_quoted_names_are_read_as_they_are(names: list[str]) -> None:
    assert listed(",".join(map(quoted_name, names))) == tuple(names)


@given(st.lists(st.tuples(NAME, st.sampled_from(["5", "1/2", "interval:5/10", ""])), max_size=4))
def test_so_are_names_with_a_value(pairs: list[tuple[str, str]]) -> None:
    assert parts(",".join(f"{quoted_name(n)}={v}" for n, v in pairs)) == pairs
    for name, value in pairs:
        assert assigned(f"{quoted_name(name)}={value}", "types") == (name, value)


def test_plain_lists_are_what_they_were() -> None:
    assert listed("age, sex ,,hours per week") == ("age", "sex", "hours per week")
    assert parts("age=17,25,hours=0,20") == [("age", "17"), ("25", None), ("hours", "0"), ("20", None)]


@pytest.mark.parametrize("text", ['"age', 'age,"se""x', '"age"x,sex', '"age" "sex"'])
def test_quotes_that_are_not_closed_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="quote"):
        listed(text)


@pytest.mark.parametrize("text", ["age", '"age=INTEGER"', "=INTEGER", ""])
def test_a_value_needs_a_name(text: str) -> None:
    with pytest.raises(SpecError, match="COLUMN=VALUE"):
        assigned(text, "types")


ODD = {"a, b": "quasi", " padded ": "quasi", 'say "x"': "keep", "x=y": "keep", "s, ü": "sensitive", "na,me": "drop"}


def test_the_command_line_takes_every_name(tmp_path: Path) -> None:
    table = pa.table({name: [f"{name[-1]}{i % 5}" for i in range(400)] for name in ODD})
    pq.write_table(table, tmp_path / "t.parquet")
    options = {"quasi": "--qi", "keep": "--keep", "sensitive": "--sa", "drop": "--drop"}
    typed = [text for name, role in ODD.items() for text in (options[role], quoted_name(name))]
    done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *typed, "--method", "randomized-response",
                   "--keep-probability", '"s, ü"=0.9', "--types", '"x=y"=VARCHAR')  # fmt: skip
    assert done.code == 0, done.text
    roles = {"quasi": "quasi", "insensitive": "keep", "sensitive": "sensitive"}
    found = {c.name: roles[c.role] for c in sf.open_release(tmp_path / "out").manifest.columns}
    assert found == {name: role for name, role in ODD.items() if role != "drop"}
    wrong = sfumato(
        "publish", tmp_path / "t.parquet", tmp_path / "two", "--sa", '"s, ü"', "--method", "anatomy", "--l", 3
    )
    assert wrong.code == 2
    assert '--qi "a, b"," padded ","say ""x""","x=y","na,me"' in wrong.err


@pytest.mark.parametrize("source", ["parquet", "arrow file", "arrow", "pandas", "reader"])
@pytest.mark.parametrize("name", ["a\0b", "\0", "x" * (LONGEST_NAME + 1)], ids=["nul", "nul alone", "long"])
def test_names_that_no_release_can_state_are_refused(name: str, source: str, tmp_path: Path) -> None:
    table = people().select(["age", "sex", "disease"]).rename_columns([name, "sex", "disease"])
    pq.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.arrow")
    given = {
        "parquet": tmp_path / "t.parquet",
        "arrow file": tmp_path / "t.arrow",
        "arrow": table,
        "pandas": table.to_pandas(),
        "reader": table.to_reader(),
    }[source]
    method = sf.UniformPerturbation(rho1="1/3", rho2="1/2")
    with pytest.raises(DataError, match=r"NUL in the name|1 to 1,000 characters"):
        sf.publish(given, tmp_path / "out", roles=sf.Roles(sensitive="disease", rest="keep"), method=method)
    assert not (tmp_path / "out").exists()


def test_the_longest_name_is_published(tmp_path: Path) -> None:
    table = people().select(["age", "disease"]).rename_columns(["x" * LONGEST_NAME, "disease"])
    method = sf.UniformPerturbation(rho1="1/3", rho2="1/2")
    release = sf.publish(table, tmp_path / "out", roles=sf.Roles(sensitive="disease", rest="keep"), method=method)
    assert pq.read_schema(release.path / "data.parquet").names == table.column_names


def test_a_name_of_two_lines_is_complained_about_in_one(tmp_path: Path) -> None:
    pq.write_table(people().select(["number", "disease"]).rename_columns(["a\nb", "disease"]), tmp_path / "t.parquet")
    options = ("--sa", "disease", "--rest", "quasi", "--method", "uniform", *METHODS["uniform"])
    done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *options)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert "nearly every row" in done.err
