"""The studio over HTTP: its door, what it keeps, what it hands over; the browser's tests walk its page."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
from starlette.datastructures import Headers

import sfumato
from commands import sfumato as command
from serving import PATIENCE, RunningStudio, running_studio
from sfumato.errors import SfumatoError, SpecError
from sfumato.web.studio.app import bound_of, foreseen_chart, forged, slider_at
from sfumato.web.studio.choices import Choices, command_line, python_lines, read_choices
from sfumato.web.studio.session import listing, proposed_release
from tables import MARK, people

ODD = Choices(
    source="/data/it's <odd>.csv",
    delimiter=";",
    null_as_value=True,
    roles={"a, b": "sensitive", 'the "side"': "quasi", "\x7f\n<script>": "drop", "-x": "keep", "id": "person"},
    rows_per_person=2,
    bound="3/10",
    rho1="1/7",
    hold=("value", "histogram"),
    trust="conditional",
    questions="SELECT \"a, b\", COUNT(*) FROM release -- '''\nGROUP BY 1;",
    method="uniform",
    options={"rho1": "1/7", "rho2": "3/10"},
    out="/data/out",
    accept_unprotected=True,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the custodian works."""
    made = tmp_path_factory.mktemp("custodian")
    pq.write_table(people(), made / "people.parquet")
    return made


@pytest.fixture(scope="module")
def studio(folder: Path) -> Iterator[RunningStudio]:
    """A studio with a table."""
    with running_studio("people.parquet", "--choices", "kept.toml", folder=folder) as found:
        yield found


@pytest.fixture
def client(studio: RunningStudio) -> Iterator[httpx.Client]:
    """A browser that was invited."""
    headers = {"origin": studio.url, "sec-fetch-site": "same-origin", "accept": "text/html"}
    with httpx.Client(base_url=studio.url, timeout=PATIENCE, headers=headers) as found:
        found.get(studio.invitation)
        yield found


def settled(client: httpx.Client, step: str) -> str:
    """The step once its work is over."""
    for _ in range(10 * PATIENCE):
        text = client.get(f"/step/{step}", headers={"hx-request": "true"}).text
        if 'aria-busy="true"' not in text:
            return text
        time.sleep(0.1)
    raise AssertionError(step)


# --- the door --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/step/source", "/choices.toml", "/files", "/x"])
def test_nothing_without_the_token(studio: RunningStudio, path: str) -> None:
    found = httpx.get(studio.url + path)
    assert found.status_code == 403
    assert "people" not in found.text
    assert "set-cookie" not in found.headers
    assert "default-src 'none'" in found.headers["content-security-policy"]


def test_the_token_is_exchanged_for_a_strict_cookie(studio: RunningStudio) -> None:
    found = httpx.get(studio.invitation)
    assert found.status_code == 200
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    token = studio.invitation.partition("token=")[2]
    assert len(token) >= 43  # 256 bits
    assert token.lower() not in cookie
    assert httpx.get(f"{studio.url}/?token={token}x").status_code == 403
    assert httpx.get(f"{studio.url}/?token={token}&token=x").status_code == 403
    assert httpx.get(f"{studio.url}/choices.toml?token={token}").status_code == 403


@pytest.mark.parametrize("host", ["localhost", "evil.example", "127.0.0.1.evil.example", "[::1]", ""])
def test_no_second_host_name(client: httpx.Client, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code in {400, 421}


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"},  # another server of this machine
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example"},
    ],
)
@pytest.mark.parametrize("path", ["/source", "/upload?name=x.csv", "/publish", "/cancel", "/choices"])
def test_forged_requests_are_refused_though_the_cookie_is_there(
    studio: RunningStudio, path: str, headers: dict[str, str]
) -> None:
    with httpx.Client(base_url=studio.url) as browser:
        browser.get(studio.invitation)
        assert browser.get("/").status_code == 200
        found = browser.post(path, content="source=/etc/passwd", headers=headers)
        assert found.status_code == 403
        assert browser.post(path, content="source=/etc/passwd").status_code == 403  # nobody says who asks


def test_where_requests_come_from() -> None:
    own = {"host": "127.0.0.1:9"}

    def made(method: str, **more: str) -> bool:
        return forged(method, Headers(own | {name.replace("_", "-"): value for name, value in more.items()}))

    assert not made("POST", origin="http://127.0.0.1:9")
    assert not made("POST", origin="null", sec_fetch_site="same-origin")  # a form, because no referrer is sent
    assert made("POST", origin="null")
    assert made("POST", origin="http://127.0.0.1:9", sec_fetch_site="same-site")
    assert not made("GET")
    assert not made("GET", sec_fetch_site="cross-site", sec_fetch_mode="navigate")  # a link may lead here
    assert made("GET", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")
    assert made("GET", sec_fetch_site="same-site", sec_fetch_mode="cors")


# --- from the table to the release -----------------------------------------------------------------------------------


def test_the_whole_way_without_a_browser(client: httpx.Client, folder: Path) -> None:
    """Posts of the forms alone; the file of choices then publishes the same by `sfumato publish --roles`."""
    assert "1,246 rows" in settled(client, "source")
    columns = people().column_names
    role = {f"role-{columns.index('disease')}": "sensitive", f"role-{columns.index('number')}": "keep"}
    assert client.post("/roles", data=role).status_code == 303
    assert client.post("/method", data={"method": "uniform"}).status_code == 303
    assert "uniform needs --rho1 and --rho2" in settled(client, "plan")
    chosen = {"method": "uniform", "option-rho1": "1/5", "option-rho2": "1/3"}
    assert client.post("/method", data=chosen).status_code == 303
    assert "at most 1/3 after" in settled(client, "plan")
    refused = client.post("/publish", data={"out": str(folder)}, headers={"hx-request": "true"})
    assert refused.status_code == 400
    assert "exists; choose another folder" in refused.text
    assert client.post("/publish", data={"out": str(folder / "out")}).status_code == 303
    settled(client, "publish")
    assert "made without a seed" in settled(client, "hand")
    kept = client.get("/choices.toml").text
    assert (folder / "kept.toml").read_text() == kept
    assert MARK in kept  # the name of a column
    assert not any(value in kept for value in (*people()["disease"].to_pylist(), f"{MARK}-1"))
    again = command(
        "publish", str(folder / "people.parquet"), str(folder / "again"), "--roles", str(folder / "kept.toml")
    )
    assert again.code == 0, again.err
    first, second = (sfumato.open_release(folder / name).manifest for name in ("out", "again"))
    assert (first.method, first.parameters, first.columns) == (second.method, second.parameters, second.columns)
    report = client.get("/report.html")
    assert "attachment" in report.headers["content-disposition"]
    assert MARK not in report.text


def test_two_tabs_a_changed_table_and_names_that_cannot_be(client: httpx.Client, folder: Path) -> None:
    """What was shown for another table or plan is refused; so is a table that changed after it was planned."""
    settled(client, "source")
    columns = people().column_names
    role = {f"role-{columns.index('disease')}": "sensitive"}
    part = {"hx-request": "true"}
    late = client.post("/roles", data=role | {"table": "0"}, headers=part)
    assert (late.status_code, "another table was chosen" in late.text) == (400, True)
    client.post("/roles", data=role)
    chosen = {"method": "uniform", "option-rho1": "1/5", "option-rho2": "1/3"}
    client.post("/method", data=chosen)
    shown = settled(client, "publish" if "at most 1/3 after" in settled(client, "plan") else "plan")
    (number,) = re.findall(r'name="plan" value="(\d+)"', shown)
    late = client.post("/publish", data={"out": str(folder / "late"), "plan": "0"}, headers=part)
    assert (late.status_code, "another plan was chosen" in late.text) == (400, True)
    for out in ("x\0y", "x" * 5000, "~nobody-at-all\0/x"):
        assert client.post("/publish", data={"out": out, "plan": number}, headers=part).status_code == 400
        assert client.get("/files", params={"folder": out}, headers=part).status_code == 400
    assert client.get("/files", params={"folder": "~nobody-at-all"}, headers=part).status_code == 400
    assert client.get("/options", params={"source": "~nobody-at-all/x.csv"}, headers=part).status_code == 200
    stat = (folder / "people.parquet").stat()
    os.utime(folder / "people.parquet", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    client.post("/publish", data={"out": str(folder / "late"), "plan": number})
    assert "has changed since it was planned" in settled(client, "publish")
    assert not (folder / "late").exists()


def test_uploads_stay_private_and_go(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    content = (folder / "people.parquet").read_bytes()
    with running_studio(folder=folder) as found, httpx.Client(base_url=found.url, timeout=PATIENCE) as client:
        client.headers.update({"origin": found.url, "accept": "application/json"})
        client.get(found.invitation)
        for name in ("", "..", ".hidden.csv", "a\0b.csv", "x" * 300 + ".csv", "table.exe"):
            assert client.post("/upload", params={"name": name}, content=b"x").status_code == 400, name
        client.post("/upload", params={"name": "../../escape.parquet"}, content=content)
        (kept,) = tmp_path.rglob("escape.parquet")
        assert kept.parent.parent.name.startswith("sfumato-scratch-")
        assert kept.stat().st_uid == os.getuid()
        assert all((place.stat().st_mode & 0o077) == 0 for place in (kept.parent, kept.parent.parent))
        client.post("/upload", params={"name": "second.parquet"}, content=content)
        assert not kept.exists()
    assert list(tmp_path.rglob("*.parquet")) == []


# --- choices ---------------------------------------------------------------------------------------------------------


def test_choices_survive_their_file() -> None:
    assert read_choices(ODD.text()) == ODD
    assert read_choices(Choices().text()) == Choices()
    assert read_choices("[studio]\nhold = 5\nquestions = 3").hold == ("histogram",)
    damaged = read_choices('[method]\nname = "uniform"\n"a b" = "=\\n["')
    assert read_choices(damaged.text()) == damaged


@pytest.mark.parametrize(
    "text", ["[", "roles = 3", '[studio]\ntrust = "blind"', "x" * 5_000_000, "a = " + "[" * 99_999]
)
def test_a_wrong_file_of_choices_is_one_line(text: str) -> None:
    with pytest.raises(SpecError) as error:
        read_choices(text)
    assert "\n" not in str(error.value)


def test_lines_that_repeat_it() -> None:
    shell, python = command_line(ODD), python_lines(ODD)
    assert shell.splitlines()[0] == (
        """sfumato publish '/data/it'"'"'s <odd>.csv' /data/out --roles "it's <odd>-choices.toml" --delimiter ';' """
        "--null-as-value --accept-unprotected"
    ).replace('"it\'s <odd>-choices.toml"', """'it'"'"'s <odd>-choices.toml'""")
    assert "method=sf.UniformPerturbation(rho1='1/7', rho2='3/10')" in python
    assert "person='id', max_rows_per_person=2" in python
    compile(python, "lines", "exec")
    plain = Choices(
        source="-t.csv", roles={"s": "sensitive", "-q": "quasi"}, method="anatomy", options={"l": "3"}, out="out"
    )
    expected = "sfumato publish ./-t.csv out --sa s --qi=-q --method anatomy --l 3\nsfumato verify out"
    assert command_line(plain) == expected
    assert "sf.Anatomy(l=3)" in python_lines(plain)


def test_the_bound_of_the_form() -> None:
    assert bound_of("1/3", "4", "1/3") == "1/4"  # the slider moved
    assert bound_of("2/7", "3", "1/3") == "2/7"  # another bound was typed
    assert bound_of("2/7", "4", "2/7") == "2/7"  # the slider stands where it was put for it
    assert slider_at("2/7") == 4
    assert slider_at("1/1000") == 20
    for text in ("2", "0", "x"):
        with pytest.raises(SfumatoError):
            bound_of(text, "3", "1/3")
    with pytest.raises(SfumatoError):
        bound_of("", "<b>", "1/3")


def test_places(folder: Path) -> None:
    found = listing(str(folder))
    assert ("people.parquet", (folder / "people.parquet").stat().st_size) in found.files
    assert "kept.toml" not in {name for name, _ in found.files}
    with pytest.raises(SfumatoError):
        listing(str(folder / "people.parquet"))
    (folder / "people-release").mkdir()
    assert proposed_release(str(folder / "people.parquet"), upload=False) == str(folder / "people-release-2")


def test_nothing_foreseen_draws_nothing() -> None:
    assert foreseen_chart([]) is None
