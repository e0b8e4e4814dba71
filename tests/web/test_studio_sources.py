"""The studio asks for what a source takes, reads it so, and the lines that it hands over repeat it."""

from __future__ import annotations

import hashlib
import re
import shlex
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
import httpx
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato as command
from serving import PATIENCE, running_studio
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.engines.files import OPTIONS, options_of
from sfumato.errors import SfumatoError, SpecError
from sfumato.web.studio.choices import Choices, command_line, python_lines, read_choices
from sfumato.web.studio.session import proposed_release
from tables import people

SAID = {"delimiter": ";", "encoding": "latin-1", "null": ("?",), "types": {"x": "VARCHAR"}, "table": "t"}
SAID |= {"query": "SELECT * FROM t", "decimal": ",", "dates": "DD.MM.YYYY"}
TYPED = {**SAID, "null": "?", "types": "x=VARCHAR"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table in many forms, with a column that is named oddly and marks for missing."""
    made = tmp_path_factory.mktemp("sources")
    table = people().slice(0, 400).select(["sex", "age", "disease"]).rename_columns(["größe", "a=b", "disease"])
    pq.write_table(table, made / "t.parquet")
    pacsv.write_csv(table, made / "plain.csv", pacsv.WriteOptions(quoting_style="needed"))
    lines = (made / "plain.csv").read_text(encoding="utf-8").splitlines()
    lines[3] = lines[3].replace(lines[3].split(",")[1], "?")
    (made / "t.csv").write_bytes("\n".join(line.replace(",", ";") for line in lines).encode("latin-1"))
    with sqlite3.connect(made / "t.db") as con:
        con.execute('CREATE TABLE t ("größe" TEXT, "a=b" INTEGER, disease TEXT)')
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", [tuple(row.values()) for row in table.to_pylist()])
    con.close()
    duckdb.connect(str(made / "t.duckdb")).execute(f"CREATE TABLE t AS FROM '{made}/t.parquet'").close()
    import xlsxwriter

    book = xlsxwriter.Workbook(str(made / "t.xlsx"))
    for name in ("t", "notes"):
        sheet = book.add_worksheet(name)
        for i, row in enumerate([table.column_names, *(tuple(r.values()) for r in table.to_pylist())]):
            sheet.write_row(i, 0, row)
    book.close()
    return made


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with running_studio("--choices", "kept.toml", folder=folder) as studio:
        headers = {"origin": studio.url, "sec-fetch-site": "same-origin", "accept": "text/html"}
        with httpx.Client(base_url=studio.url, timeout=PATIENCE, headers=headers) as found:
            found.get(studio.invitation)
            yield found


def _post(client: httpx.Client, path: str, **form: str) -> str:
    found = client.post(path, content=urlencode(form), headers={"hx-request": "true"})
    return found.text if found.is_error else _settled(client)


def _settled(client: httpx.Client) -> str:
    """The first step, and those after it, once the table was looked at."""
    for _ in range(10 * PATIENCE):
        text = client.get("/step/source", headers={"hx-request": "true"}).text
        if 'aria-busy="true"' not in text:
            return text
        time.sleep(0.1)
    raise AssertionError("the look does not end")


def _asked(text: str) -> set[str]:
    """Names of the fields of the form, but for the source."""
    return set(re.findall(r'<(?:input|textarea)[^>]* name="(\w+)"', text)) - {"source"}


def _sources(folder: Path) -> dict[str, str]:
    return {
        "csv": str(folder / "t.csv"),
        "parquet": str(folder / "t.parquet"),
        "excel": str(folder / "t.xlsx"),
        "sqlite": f"sqlite:///{folder / 't.db'}",
        "sqlite with a table": f"sqlite:///{folder / 't.db'}?table=t",
        "duckdb": f"duckdb:///{folder / 't.duckdb'}",
    }


@pytest.mark.parametrize("kind", ["csv", "parquet", "excel", "sqlite", "sqlite with a table", "duckdb"])
def test_the_form_asks_for_what_the_source_takes(kind: str, folder: Path, client: httpx.Client) -> None:
    """What is offered is what the library does not refuse out of hand."""
    source = _sources(folder)[kind]
    takes = options_of(source)
    assert _asked(client.get("/options", params={"source": source}).text) == set(takes)
    for name in OPTIONS:
        try:
            LocalEngine().open(sf.Source(source, **{name: SAID[name]}))
            refused = False
        except SpecError as error:
            refused = error.field == name and ("goes with" in str(error) or "is for" in str(error))
            refused |= "say it in one place" in str(error)
        except SfumatoError:
            refused = False  # it was looked at
        assert refused != (name in takes), name
    _post(client, "/source", source=source, **{name: str(TYPED[name]) for name in OPTIONS})
    kept = read_choices(client.get("/choices.toml").text)
    assert {name for name in OPTIONS if kept[name]} == set(takes)


def test_every_way_of_reading_is_asked_for() -> None:
    assert set(OPTIONS) == {field.name for field in fields(sf.Source)} - {"given", "recode"} == set(SAID)


def test_nothing_is_asked_about_a_source_that_is_none(client: httpx.Client) -> None:
    for source in ("", "nowhere.csv", "mysql://x/y", "sqlite://", "x.docx"):
        assert _asked(client.get("/options", params={"source": source}).text) == set()


CHOSEN: dict[str, dict[str, str]] = {
    "csv": {"delimiter": ";", "encoding": "latin-1", "null": "?\r\nNA", "decimal": ",", "types": '"a=b"=VARCHAR\r\n'},
    "excel": {"table": "t"},
    "sqlite": {"query": 'SELECT "größe", "a=b", disease FROM t\r\nWHERE "a=b" > 20'},
    "duckdb": {"table": "t", "types": '"a=b"=SMALLINT'},
}


@pytest.mark.parametrize("kind", CHOSEN)
def test_tables_are_read_as_the_form_says_and_the_lines_repeat_it(
    kind: str, folder: Path, client: httpx.Client, tmp_path: Path
) -> None:
    source = _sources(folder)[kind]
    shown = _post(client, "/source", source=source, **CHOSEN[kind])
    assert "3 columns" in shown, shown
    chosen = read_choices(client.get("/choices.toml").text)
    assert chosen.source == source
    roles = {"größe": "quasi", "a=b": "keep", "disease": "sensitive"}
    options = {"rho1": "1/4", "rho2": "1/2"}
    done = Choices(
        source=source,
        roles=roles,
        method="uniform",
        options=options,
        out=str(tmp_path / "out"),
        **{name: chosen[name] for name in OPTIONS},
    )
    words = shlex.split(command_line(done).rpartition("\n")[0])
    assert words[0] == "sfumato"
    finished = command(*words[1:], "--seed", "3")
    assert finished.code == 0, finished.text
    code = python_lines(done).replace(str(tmp_path / "out"), str(tmp_path / "again")).replace("\n)", "\n    seed=3,\n)")
    exec(compile(code, "lines", "exec"), {"print": lambda _: None})
    digests = [hashlib.sha256((tmp_path / n / "data.parquet").read_bytes()).hexdigest() for n in ("out", "again")]
    assert digests[0] == digests[1]
    published = pq.read_table(tmp_path / "out" / "data.parquet")
    assert published.num_rows == LocalEngine().open(done.as_source()).people("a=b").rows
    if kind == "csv":
        assert published["a=b"].null_count == 1
        assert str(published.schema.field("a=b").type) == "string"


def test_an_upload_may_be_read_in_another_way(folder: Path, client: httpx.Client) -> None:
    posted = client.post(
        "/upload", params={"name": "t.xlsx"}, content=(folder / "t.xlsx").read_bytes(), headers={"hx-request": "true"}
    )
    assert posted.status_code == 200
    text = _settled(client)
    assert "2 sheets" in text
    assert _asked(text) == {"table", "types"}
    assert "3 columns" in _post(client, "/source", source="", table="notes")
    assert {"table", "types"} <= _asked(_settled(client))


@pytest.mark.parametrize(
    "source",
    ["postgresql://u:zqxjpass@h/d?table=t", "postgresql://h/d?password=zqxjpass", "odbc://x?PWD=zqxjpass&table=t"],
)
def test_a_password_is_neither_kept_nor_shown(source: str, folder: Path, client: httpx.Client) -> None:
    assert "password" in _post(client, "/source", source=source)
    posted = client.post("/choices", content=f'[studio]\nsource = "{source}"\n', headers={"hx-request": "true"})
    assert posted.is_error
    everything = posted.text + client.get("/").text + client.get("/choices.toml").text
    assert "zqxjpass" not in everything + (folder / "kept.toml").read_text(encoding="utf-8")
    done = command("studio", source)
    assert done.code == 2
    assert "zqxjpass" not in done.text


def test_addresses_have_plain_names(tmp_path: Path) -> None:
    made: Any = Choices(source="postgresql://db.example.org/clinic?table=visits")
    assert made.name == "clinic"
    assert Path(proposed_release(made.source, upload=False)).name == "clinic-release"
    assert Path(proposed_release(f"sqlite:///{tmp_path}/a.db?table=t", upload=False)).name == "a-release"
