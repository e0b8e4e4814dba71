"""The studio in a real browser: a custodian from a file to a verified release, and everybody else before the door.

The journeys watch the browser's console: a page that breaks the content security policy, a script that fails, or a
request to another host fails the test. `--update-golden` renews the pictures of docs/figures.
"""

from __future__ import annotations

import html
import http.server
import shlex
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette", reason="the web extra is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

import sfumato
from browsing import BROWSER, accessible, picture, until, watched_page
from commands import sfumato as command
from serving import ARABIC, SCRIPT, WIDE, RunningStudio, awkward_table, running_studio
from tables import MARK, people

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
SLOW = 180_000  # milliseconds until a studio that is not at work is given up
GIVEN_UP = 1_800_000  # and until one that is at work is: it works for ever
AT_WORK = "() => document.querySelector('[aria-busy=true], .htmx-request') !== null"
LISTENING = "() => document.querySelector('.htmx-added, .htmx-settling') === null"  # new parts hear a choice
COLUMNS = people().column_names
QUESTIONS = (
    "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease; "
    "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex;"
)

# every method that fits holds the reader "value" (the second column of numbers), and there is one
HOLDING = """() => {
    const rows = [...document.querySelectorAll("tr.fits")];
    return rows.length > 0 && rows.every((row) => row.cells[3].classList.contains("held"));
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the custodian works: a small table, and an awkward one."""
    made = tmp_path_factory.mktemp("custodian")
    pq.write_table(people(), made / "people.parquet")
    awkward = awkward_table()
    pq.write_table(awkward.rename_columns(["a, b", *awkward.column_names[1:]]), made / "awkward.parquet")
    return made


@pytest.fixture(scope="module")
def studio(folder: Path) -> Iterator[RunningStudio]:
    """A studio without a table."""
    with running_studio(folder=folder) as found:
        yield found


@pytest.fixture
def page(browser: Any, studio: RunningStudio) -> Iterator[Any]:
    """The custodian's page."""
    with watched_page(browser, studio.url) as opened:
        invited(opened, studio)
        yield opened


def invited(page: Any, studio: RunningStudio) -> None:
    """The page is open and its scripts are there; the address no longer holds the token."""
    page.goto(studio.invitation, timeout=GIVEN_UP)
    page.wait_for_url(f"{studio.url}/", timeout=GIVEN_UP)
    page.locator("#step-source").wait_for()


def appears(page: Any, wanted: Any) -> None:
    """It is on the page, which listens: waited for while the studio is at work, however long that takes."""
    from playwright.sync_api import TimeoutError as NotYet

    for _ in range(GIVEN_UP // SLOW):
        try:
            wanted.wait_for(timeout=SLOW)
            return until(page, LISTENING)
        except NotYet:
            if not page.evaluate(AT_WORK):
                raise
    raise AssertionError(f"the studio is still at work, without {wanted}")


def opened(page: Any, path: Path, columns: int) -> None:
    """The table at a path is looked at."""
    page.evaluate("document.getElementById('step-roles').dataset.old = 'yes'")
    page.fill("#source", str(path))
    page.get_by_role("button", name="Open", exact=True).click()
    appears(page, page.locator("#step-source .facts", has_text=f"{path.name}:"))
    appears(page, page.locator("#step-roles:not([data-old]) .column").nth(columns - 1))


def role(page: Any, column: int, name: str) -> None:
    """The column has the role, by the list beside its name."""
    page.select_option(f"#role-{column}", name)
    appears(page, page.locator(f'.lane[data-role="{name}"] #role-{column}'))


def test_from_a_file_to_a_verified_release(page: Any, folder: Path, tmp_path: Path) -> None:
    opened(page, folder / "people.parquet", len(COLUMNS))
    assert "1,246" in page.inner_text("#step-source")
    assert "nearly unique" in page.inner_text("#step-look")
    sensitive, number = COLUMNS.index("disease"), COLUMNS.index("number")
    page.locator(f'.column[data-column="{sensitive}"]').drag_to(page.locator('.lane[data-role="sensitive"]'))
    page.locator(f'.lane[data-role="sensitive"] #role-{sensitive}').wait_for()
    page.locator(f"#role-{number}").focus()  # with keys alone
    page.keyboard.type("Harmless", delay=200)
    page.locator(f'.lane[data-role="keep"] #role-{number}').wait_for()
    assert page.evaluate("document.activeElement.id") == f"role-{number}"
    page.locator(".cm-content").click()
    page.keyboard.insert_text(QUESTIONS)
    page.locator("#slider").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#bound-words", has_text="1/4").wait_for()
    appears(page, page.locator("#asked", has_text="at the bound 1/4"))
    page.check("#hold-value")
    until(page, HOLDING, seconds=SLOW / 1000)  # methods that do not hold this reader step back, at once
    best = page.locator("tr.fits").first.get_by_role("rowheader").inner_text()
    assert best.endswith("least error")
    assert page.locator("#plan-best").inner_text() == f"Plan {best.removesuffix('least error').strip()}"
    page.locator(".chart[data-drawn]").wait_for()
    assert page.locator(".chart svg .mark-rect path").count() >= 7
    page.locator("#plan-best").click()
    appears(page, page.locator("#publish"))
    assert "1/4" in page.inner_text("#step-plan .promise")
    page.reload()  # leaving the page loses nothing
    page.locator("#publish").wait_for()
    assert page.locator("#questions").input_value() == QUESTIONS
    out = folder / "handed"
    page.fill("#out", str(out))
    page.locator("#publish").click()
    appears(page, page.locator(".checks"))
    assert "made without a seed" in page.inner_text(".checks")
    release = sfumato.open_release(out)
    assert release.manifest.rows == 1246
    assert MARK not in (out / "release.json").read_text()
    _hand_over(page, out, tmp_path)
    accessible(page)


def _hand_over(page: Any, out: Path, tmp_path: Path) -> None:
    """The zip, the report, the file of choices, and the lines that repeat it."""
    with page.expect_download() as archive:
        page.get_by_role("link", name="the release as a zip").click()
    with zipfile.ZipFile(archive.value.path()) as packed:
        packed.extractall(tmp_path)
    assert (tmp_path / "handed" / "release.json").read_bytes() == (out / "release.json").read_bytes()
    with page.expect_download() as report:
        page.get_by_role("link", name="the public report").click()
    text = Path(report.value.path()).read_text(encoding="utf-8")
    assert sfumato.open_release(out).guarantee.statement in html.unescape(text)
    assert "public version" in text
    with page.expect_download() as chosen:
        page.get_by_role("link", name="your choices").click()
    kept = Path(chosen.value.path()).read_text(encoding="utf-8")
    assert tomllib.loads(kept)["studio"]["bound"] == "1/4"
    stated = sfumato.open_release(out).manifest
    shell = page.inner_text("#repeat-shell").replace(str(out), str(tmp_path / "by-shell"))
    for line in shell.splitlines():
        assert command(*shlex.split(line)[1:]).code == 0
    python = page.inner_text("#repeat-python").replace(str(out), str(tmp_path / "by-python"))
    exec(python, {})
    for name in ("by-shell", "by-python"):
        again = sfumato.open_release(tmp_path / name).manifest
        assert (again.method, again.parameters, again.columns) == (stated.method, stated.parameters, stated.columns)


def test_a_file_dialog_keeps_its_copy_private(page: Any, folder: Path) -> None:
    page.set_input_files("#upload", folder / "people.parquet")
    appears(page, page.locator("#step-source .facts", has_text="a copy in a private folder"))
    assert page.locator(".column").count() == len(COLUMNS)
    page.set_input_files("#upload", files=[{"name": "x.exe", "mimeType": "text/plain", "buffer": b"x"}])
    page.locator("#problems .refusal").wait_for()
    assert "x.exe" in page.inner_text("#problems")


def test_choices_are_saved_and_loaded(page: Any, folder: Path, tmp_path: Path) -> None:
    opened(page, folder / "people.parquet", len(COLUMNS))
    role(page, COLUMNS.index("disease"), "sensitive")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save my choices").click()
    saved.value.save_as(tmp_path / "mine.toml")
    role(page, COLUMNS.index("disease"), "drop")
    page.set_input_files("#load-choices", tmp_path / "mine.toml")
    appears(page, page.locator(f'.lane[data-role="sensitive"] #role-{COLUMNS.index("disease")}'))


def test_browsing_this_machine(page: Any, folder: Path) -> None:
    page.get_by_text("Browse this machine").click()
    page.get_by_role("button", name="people.parquet").click()
    appears(page, page.locator("#step-source .facts", has_text="people.parquet: 1,246 rows"))


def test_awkward_names_stay_text(page: Any, folder: Path) -> None:
    """Markup, quotes, right-to-left text, a comma in a name, 500 values, 60 columns; and no sideways scrolling."""
    opened(page, folder / "awkward.parquet", WIDE)
    role(page, 0, "sensitive")
    page.select_option("#method", "uniform")
    appears(page, page.get_by_role("alert"))  # it needs its parameters
    page.fill("#option-rho1", "1/20")
    page.fill("#option-rho2", "1/2")
    page.get_by_role("button", name="Plan again").click()
    appears(page, page.locator("#publish"))
    page.get_by_text("Errors to expect").click()
    assert page.get_by_role("rowheader", name=SCRIPT).is_visible()
    out = folder / "odd <b>"
    page.fill("#out", str(out))
    page.locator("#publish").click()
    appears(page, page.locator(".checks"))
    assert "--roles awkward-choices.toml" in page.inner_text("#repeat-shell")
    assert page.evaluate("window.broken") is None
    names = page.locator(".column label").all_inner_texts()
    assert {'the "side"', "عمود", "a, b"} <= set(names)
    assert ARABIC in sfumato.open_release(out).manifest.model_dump_json()
    page.emulate_media(color_scheme="dark")
    accessible(page)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.emulate_media(media="print")
    assert not page.locator("#publish").is_visible()
    assert page.locator(".checks").is_visible()


def test_a_refusal_is_said_and_nothing_is_lost(page: Any, folder: Path) -> None:
    page.fill("#source", str(folder / "nothing.parquet"))
    page.get_by_role("button", name="Open", exact=True).click()
    appears(page, page.get_by_role("alert").filter(has_text='there is no file "nothing.parquet"'))
    opened(page, folder / "people.parquet", len(COLUMNS))
    role(page, COLUMNS.index("disease"), "sensitive")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text("SELECT COUNT(*) AS n FROM release WHERE nothing = 1")
    page.keyboard.press("Control+Enter")
    appears(page, page.locator("#step-methods [role=alert]"))


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of another server of this machine: the same site for cookies, another origin."""

    target = ""

    def do_GET(self) -> None:
        body = f"""<form id="f" method="post" action="{self.target}/source"><input name="source" value="/etc/passwd">
        </form><img src="{self.target}/choices.toml"><iframe src="{self.target}/"></iframe>""".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silence."""


def test_another_page_cannot_reach_the_studio(browser: Any, studio: RunningStudio) -> None:
    handler = type("Handler", (_Elsewhere,), {"target": studio.url})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=partial(server.serve_forever, poll_interval=0.05), daemon=True).start()
        context = browser.new_context()
        inside = context.new_page()
        invited(inside, studio)
        source = inside.locator("#source").input_value()
        evil = context.new_page()  # the same browser: it holds the cookie
        evil.goto(f"http://127.0.0.1:{server.server_port}/")
        said = evil.evaluate(
            """async (url) => {
                const tries = [fetch(url + "/choices.toml", {credentials: "include"}),
                    fetch(url + "/source", {method: "POST", credentials: "include", mode: "no-cors",
                        headers: {"content-type": "application/x-www-form-urlencoded"}, body: "source=/etc/passwd"})];
                return (await Promise.allSettled(tries)).map((t) => t.status + (t.value ? t.value.type : ""));
            }""",
            studio.url,
        )
        assert said[0] == "rejected"
        with evil.expect_navigation() as posted:
            evil.evaluate("document.getElementById('f').submit()")
        assert posted.value.status == 403
        assert "another page" in evil.inner_text("main")
        inside.reload()
        assert inside.locator("#source").input_value() == source
        context.close()
        server.shutdown()


def test_the_door_is_closed_without_the_token(browser: Any, studio: RunningStudio) -> None:
    context = browser.new_context()
    page = context.new_page()
    for address in (studio.url, f"{studio.url}/?token=wrong", f"{studio.url}/choices.toml"):
        answer = page.goto(address)
        assert answer.status == 403
        assert "sfumato studio has printed" in page.inner_text("h1")
    accessible(page)
    assert page.goto(studio.invitation.replace("127.0.0.1", "localhost")).status == 421  # no second host name
    assert page.request.get(studio.invitation, headers={"host": "evil.example"}).status == 421
    context.close()


def test_pictures(browser: Any, tmp_path: Path, update_golden: bool) -> None:
    """The tutorial's table in the studio, for the docs."""
    if not update_golden:
        pytest.skip("pictures are renewed by --update-golden")
    table = sfumato.datasets.adult().select(["age", "education", "sex", "race", "hours_per_week", "occupation"])
    pq.write_table(table, tmp_path / "adult.parquet")
    with running_studio("adult.parquet", folder=tmp_path) as found, watched_page(browser, found.url) as page:
        invited(page, found)
        appears(page, page.locator("#role-5"))
        page.check("#null_as_value")
        role(page, 5, "sensitive")
        page.locator(".cm-content").click()
        page.keyboard.insert_text(
            "SELECT sex, occupation, COUNT(*) AS n FROM release GROUP BY sex, occupation;\n"
            "SELECT education, AVG(hours_per_week) AS hours FROM release\n"
            "WHERE occupation = 'Sales' GROUP BY education;"
        )
        page.select_option("#trust", "conditional")
        appears(page, page.locator("#asked"))
        page.locator(".chart[data-drawn]").wait_for()
        page.set_viewport_size({"width": 1200, "height": 1420})
        page.evaluate("document.getElementById('step-promise').scrollIntoView()")
        picture(page, "studio", update_golden, whole=False)
