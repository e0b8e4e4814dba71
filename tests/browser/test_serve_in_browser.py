"""The analysts' pages in a real browser: from a question to its chart, a refusal, the suggestion and a permalink.

The journeys also watch the browser's console: a page that breaks the content security policy, or a script that fails,
fails the test. `--update-golden` renews the pictures of docs/figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the web extra is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

import sfumato
from browsing import BROWSER, accessible, picture, until, watched_page
from serving import ARABIC, QUOTES, SCRIPT, UNHURRIED, Running, awkward_release, bounded_release, running

ODD = "it's <odd>"
SLOWLY = 300  # milliseconds from key to key

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def adult_release(folder: Path) -> Path:
    """The table of the tutorial, as `sfumato demo` publishes it; with a seed, so that pictures stay the same."""
    sfumato.publish(
        sfumato.datasets.adult(),
        folder,
        roles=sfumato.Roles(sensitive="occupation", rest="quasi"),
        method=sfumato.UniformPerturbation(rho1="1/5", rho2="1/2"),
        null_as_value=True,
        seed=1,
    )
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three releases behind a server."""
    folder = tmp_path_factory.mktemp("served")
    made = (adult_release(folder / "adult"), bounded_release(folder / "bounded"), awkward_release(folder / ODD))
    with running(*made, options=("--workers", "2", "--allow-host", "other.example", *UNHURRIED)) as found:
        yield found


@pytest.fixture
def page(browser: Any, server: Running) -> Iterator[Any]:
    """A page that may talk to the server alone."""
    with watched_page(browser, server.url) as opened:
        yield opened


def written(page: Any, part: str) -> None:
    """Wait until the choices have come back as SQL that holds this: the form is new then, and the next choice stays."""
    until(page, f"document.querySelector('#sql').value.includes({json.dumps(part)})")


def test_from_choices_to_an_answer(page: Any, update_golden: bool) -> None:
    page.goto("/")
    page.get_by_role("link", name="adult", exact=True).click()
    assert "at most 1/2 after" in page.inner_text("main")
    picture(page, "serve-release", update_golden)
    page.get_by_role("link", name="Ask", exact=True).click()
    page.locator(".editor").wait_for()
    page.select_option("#c0", "occupation")
    page.locator("#v0").wait_for()
    page.select_option("#v0", "Sales")
    written(page, "= 'Sales'")
    page.select_option("#g0", "education")
    page.locator("#g1").wait_for()
    written(page, "GROUP BY education")
    assert "WHERE occupation = 'Sales'" in page.locator("#sql").input_value()
    page.locator("#ask-form").click()
    page.locator(".chart[data-drawn]").wait_for()
    assert page.locator("table.numbers tbody tr").count() == 16
    assert page.locator(".chart svg path").count() > 16
    assert "95 % interval" in page.inner_text("#answer")
    assert "g0=education" in page.url
    picture(page, "serve-answer", update_golden)
    page.reload()
    page.locator(".chart[data-drawn]").wait_for()
    assert page.locator("#v0").input_value() == "Sales"  # leaving the page loses nothing


def test_refusal_suggestion_permalink(page: Any, update_golden: bool) -> None:
    page.goto("/adult/ask")
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text("SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Teacher' GROUP BY sex")
    page.keyboard.press("Control+Enter")
    refusal = page.get_by_role("alert")
    refusal.wait_for()
    assert refusal.locator("mark").inner_text() == "'Teacher'"
    caret = refusal.locator(".caret").inner_text()
    assert caret.strip("\n").strip() == "^" * len("'Teacher'")
    picture(page, "serve-refusal", update_golden)
    refusal.get_by_role("link", name="use 'Tech-support'").click()
    page.locator(".chart[data-drawn]").wait_for()
    assert page.locator("table.numbers tbody tr").count() == 2
    shown = page.locator("table.numbers").inner_text()
    link = page.locator("#permalink").get_attribute("href")
    assert "digest=" in link
    page.goto(link)
    page.locator(".chart[data-drawn]").wait_for()
    assert page.locator("table.numbers").inner_text() == shown


def test_a_model_and_a_test(page: Any, update_golden: bool) -> None:
    page.goto("/adult/ask")
    page.locator(".editor").wait_for()
    page.locator("#formula").fill("hours_per_week ~ age + C(sex)")
    page.locator("#fit-where").fill("occupation <> 'Sales'")
    page.get_by_role("button", name="Fit", exact=True).click()
    page.locator(".chart[data-drawn]").wait_for()
    assert page.locator("table.numbers tbody tr").count() == 3
    assert "formula=hours_per_week" in page.url
    accessible(page)
    picture(page, "serve-fit", update_golden)
    page.reload()
    page.locator(".chart[data-drawn]").wait_for()
    assert page.locator("#formula").input_value() == "hours_per_week ~ age + C(sex)"
    page.select_option("#x", "sex")
    page.select_option("#y", "occupation")
    page.get_by_role("button", name="Test", exact=True).click()
    page.get_by_text("Do sex and occupation go together?").wait_for()
    assert "Cramer's V" in page.inner_text("#answer")
    page.locator("#formula").fill("hours_per_week ~ nothing")
    page.get_by_role("button", name="Fit", exact=True).click()
    refusal = page.get_by_role("alert")
    refusal.wait_for()
    assert refusal.locator("mark").inner_text() == "nothing"


def test_completion_knows_columns_and_values(page: Any) -> None:
    page.goto("/adult/ask")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Backspace")
    page.keyboard.type("SELECT COUNT(*) FROM release WHERE occ")
    page.locator(".cm-tooltip-autocomplete li", has_text="occupation").first.click()
    page.keyboard.type(" = 'Sal")
    page.locator(".cm-tooltip-autocomplete li", has_text="'Sales'").first.click()
    assert page.locator("#sql").input_value() == "SELECT COUNT(*) FROM release WHERE occupation = 'Sales'"


def test_keyboard_alone_is_enough(page: Any) -> None:
    page.goto("/adult/ask")
    page.locator(".editor").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#c0").focus()
    page.keyboard.type("sex", delay=SLOWLY)  # the form comes back between two letters, and the word goes on
    page.locator("#v0").wait_for()
    assert page.evaluate("document.activeElement.id") == "c0"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("Male", delay=SLOWLY)
    written(page, "sex = 'Male'")
    page.select_option("#c0", "race")  # another column: its value is open
    page.locator("#v0").get_by_text("White", exact=True).wait_for(state="attached")
    assert page.locator("#v0").input_value() == ""
    page.select_option("#c0", "sex")
    page.locator("#v0").get_by_text("Male", exact=True).wait_for(state="attached")
    page.select_option("#v0", "Male")
    written(page, "sex = 'Male'")
    page.locator("#ask-form").focus()
    page.keyboard.press("Enter")
    page.locator(".headline strong").wait_for()
    assert page.locator(".headline strong").inner_text() == "32,650"  # exact: sex was not changed


def test_charts_of_every_kind_are_drawn(page: Any) -> None:
    by = "FROM release WHERE occupation = 'Sales' GROUP BY"
    for name, sql in (
        ("adult", f"SELECT race, sex, COUNT(*) AS n {by} race, sex"),
        ("adult", f"SELECT age // 10 * 10 AS age_from, COUNT(*) AS n {by} age // 10 * 10"),
        ("adult", f"SELECT sex, AVG(age) AS a, COUNT(*) AS n {by} sex"),
        ("adult", "SELECT COUNT(*) FILTER (WHERE occupation = 'Sales') AS a, COUNT(*) AS b FROM release"),
        ("bounded", "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"),
    ):
        page.goto(f"/{name}/ask?sql=" + _quoted(sql))
        if "FILTER" in sql:
            assert page.locator(".headline strong").count() == 2
            continue
        page.locator(".chart[data-drawn]").wait_for()
        assert page.locator(".chart svg").count() == 1
    page.locator(".chart .mark-rule line").first.hover(force=True)


def test_awkward_values_stay_text(page: Any) -> None:
    page.goto("/" + _quoted(ODD))
    assert page.get_by_role("rowheader").count() == 60
    page.get_by_text("500 values").click()
    assert page.get_by_text(SCRIPT, exact=True).first.is_visible()
    page.goto("/" + _quoted(ODD) + "/ask")
    page.locator(".editor").wait_for()
    page.select_option("#c0", 'the "side"')
    page.locator("#v0").wait_for()
    page.select_option("#v0", SCRIPT)
    written(page, SCRIPT)
    page.select_option("#g0", "<b>what</b>")
    page.locator("#g1").wait_for()
    written(page, 'GROUP BY "<b>what</b>"')
    page.locator("#ask-form").click()
    page.locator(".chart[data-drawn]").wait_for()
    assert page.locator("table.numbers tbody tr").count() == 500
    keys = page.locator("table.numbers td.key").all_inner_texts()
    assert {SCRIPT, QUOTES, ARABIC} <= set(keys)
    assert page.evaluate("window.broken") is None


def test_another_host_name_sees_nothing(page: Any, server: Running) -> None:
    found = page.request.get(f"{server.url}/adult", headers={"host": "evil.example"})
    assert found.status == 421
    assert "occupation" not in found.text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    sql = _quoted("SELECT education, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY education")
    refused = _quoted("SELECT COUNT(*) AS n FROM release WHERE occupation = 'Teacher'")
    for path in (
        "/",
        "/adult",
        "/adult/ask?what=share&cs=occupation&os=in",
        f"/adult/ask?sql={sql}",
        f"/adult/ask?sql={refused}",
    ):
        page.goto(path)
        if "/ask" in path:
            page.locator(".editor").wait_for()
        if sql in path:
            page.locator(".chart[data-drawn]").wait_for()
            for summary in page.locator("summary").all():
                summary.click()
        accessible(page)


@pytest.mark.parametrize("path", ["/", "/adult", "/adult/ask?sql={}", "/odd/ask?sql={}"])
def test_a_phone_shows_it_without_scrolling_sideways(page: Any, path: str, update_golden: bool) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    sql = "SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY sex"
    if path.startswith("/odd"):
        sql, path = (
            'SELECT "the ""side""", COUNT(*) AS n FROM release GROUP BY "the ""side"""',
            path.replace("odd", _quoted(ODD)),
        )
    page.goto(path.format(_quoted(sql)))
    if "ask" in path:
        page.locator(".chart[data-drawn]").wait_for()
        page.locator(".editor").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    if path.startswith("/adult/ask"):
        picture(page, "serve-phone", update_golden)


def test_it_prints_the_answer_and_where_it_came_from(page: Any) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY sex"
    page.goto("/adult/ask?sql=" + _quoted(sql))
    page.locator(".chart[data-drawn]").wait_for()
    page.emulate_media(media="print")
    assert not page.locator("#builder").is_visible()
    assert page.locator("table.numbers").is_visible()


def test_without_scripts_the_form_still_asks(browser: Any, server: Running) -> None:
    context = browser.new_context(base_url=server.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/adult/ask")
    page.select_option("#g0", "sex")
    page.locator("#ask-form").click()
    page.locator("table.numbers").wait_for()
    assert page.locator("table.numbers tbody tr").count() == 2
    page.fill("#sql", "SELECT COUNT(*) AS n FROM release WHERE sex = 'Male'")
    page.locator("#writer button[type=submit]").click()
    assert page.locator(".headline strong").inner_text() == "32,650"
    context.close()


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
