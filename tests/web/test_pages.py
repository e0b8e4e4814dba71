"""The pages as text: what the form asks, what an answer and a refusal show, and that no value becomes markup."""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.datastructures import QueryParams

import sfumato
from serving import ARABIC, QUOTES, SCRIPT
from sfumato.errors import SpecError
from sfumato.web.analyst import read, to_sql
from sfumato.web.api import Service
from sfumato.web.catalogue import Served, ServedColumn, catalogue
from sfumato.web.presenting import MOST_CELLS, chart, present
from sfumato.web.refusals import Refusal
from sfumato.web.server import Settings, layout
from sfumato.web.workers import Pool, Reply

PAGE = {"accept": "text/html,application/xhtml+xml"}
ODD = "/it's <odd>"


def column(name: str, kind: str, **more: object) -> ServedColumn:
    facts = {"role": "quasi", "domain": None, "declared": False} | more
    return ServedColumn(name=name, type=kind, **facts)  # type: ignore[arg-type]


COLUMNS = (
    column("age", "SMALLINT"),
    column("sex", "VARCHAR"),
    column("born on", "DATE"),
    column("pay", "DOUBLE"),
    column("disease", "VARCHAR", role="sensitive", domain=("cold", "flu")),
)


@pytest.mark.parametrize(
    ("fields", "sql"),
    [
        ("", "SELECT COUNT(*) AS n FROM release"),
        (
            "what=count&c0=disease&o0=is&v0=flu&g0=sex",
            "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex ORDER BY n DESC",
        ),
        (
            "what=count&c0=disease&o0=in&v0=flu&v0=cold&c1=age&o1=between&v1=20&v1=30",
            "SELECT COUNT(*) AS n FROM release WHERE disease IN ('flu', 'cold') AND age BETWEEN 20 AND 30",
        ),
        (
            "what=share&cs=disease&os=is&vs=flu&g0=age&s0=10",
            (
                "SELECT age // 10 * 10 AS age_from, AVG(CASE WHEN disease = 'flu' THEN 1 ELSE 0 END) AS share "
                "FROM release GROUP BY age // 10 * 10 ORDER BY age_from"
            ),
        ),
        (
            "what=average&of=pay&c0=born on&o0=lt&v0=1980-01-01&g0=born on&s0=year",
            (
                'SELECT YEAR("born on") AS "born on_year", AVG(pay) AS average_pay FROM release WHERE "born on" < '
                '\'1980-01-01\' GROUP BY YEAR("born on") ORDER BY "born on_year"'
            ),
        ),
        ("what=sum&of=pay&c0=sex&o0=null", "SELECT SUM(pay) AS total_pay FROM release WHERE sex IS NULL"),
        (
            "what=count&c0=sex&o0=is&v0=O'Brien' OR 1=1 --",
            "SELECT COUNT(*) AS n FROM release WHERE sex = 'O''Brien'' OR 1=1 --'",
        ),
        ("what=count&c0=nobody&o0=is&v0=x&g0=nobody", "SELECT COUNT(*) AS n FROM release"),
        ("what=count&c0=sex&o0=empty", "SELECT COUNT(*) AS n FROM release WHERE sex = ''"),
        ("what=count&c0=sex&o0=has&v0=50%25", "SELECT COUNT(*) AS n FROM release WHERE sex LIKE '%50\\%%' ESCAPE '\\'"),
    ],
)
def test_the_form_becomes_sql(fields: str, sql: str) -> None:
    assert " ".join(to_sql(read(QueryParams(fields), COLUMNS), COLUMNS).split()) == sql


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("what=average", "column of numbers"),
        ("what=average&of=sex", "column of numbers"),
        ("what=share", "whose share"),
        ("what=count&c0=disease&o0=is", 'a value for "disease"'),
        ("what=count&c0=age&o0=between&v0=3", 'both ends for "age"'),
        ("what=count&c0=age&o0=lt&v0=1;DROP", "compared with numbers"),
        (f"what=count&c0=age&o0=lt&v0={'1' * 60_000}x", "compared with numbers"),  # at once, not in time squared
        ("what=count&c0=born on&o0=lt&v0=soon", "compared with dates"),
    ],
)
def test_the_form_says_what_is_missing(fields: str, said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        to_sql(read(QueryParams(fields), COLUMNS), COLUMNS)


def test_home_and_release_say_what_is_promised(client: httpx.Client, releases: tuple[Path, ...]) -> None:
    statement = html.escape(sfumato.open_release(releases[0]).guarantee.statement, quote=True)
    home = client.get("/", headers=PAGE).text
    assert statement.replace("&#x27;", "&#39;") in home
    assert "1,246 rows" in home
    page = client.get("/people", headers=PAGE).text
    for part in ("It assumes", "It does not cover", "release.zip", "data.csv", "sfumato query people", "open_release"):
        assert part in page
    assert "made with a seed" in page


def test_an_answer_page(client: httpx.Client) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex ORDER BY sex"
    found = client.get("/people/ask", params={"sql": sql, "level": "0.9"}, headers=PAGE)
    assert found.status_code == 200
    row = client.get("/people/query", params={"sql": sql, "level": "0.9"}).json()["rows"][0]
    assert f'<td class="number estimate">{row["n"]:.1f}</td>' in found.text or f">{row['n']:,.0f}</td>" in found.text
    assert "90 % interval" in found.text
    assert found.text.count('<svg class="interval"') == 2
    assert "How was this computed?" in found.text
    link = html.unescape(re.search(r'id="permalink" href="([^"]+)"', found.text)[1])
    assert parse_qs(urlsplit(link).query)["sql"] == [sql]
    assert client.get(link, headers=PAGE).status_code == 200
    for name in ("csv", "json", "parquet"):
        address = html.unescape(re.search(rf'href="([^"]+format={name}[^"]*)"', found.text)[1])
        assert client.get(address).status_code == 200


def test_a_refusal_points_and_proposes(client: httpx.Client) -> None:
    sql = "SELECT COUNT(*) AS n\nFROM release\nWHERE disease = 'flue'"
    found = client.get("/people/ask", params={"sql": sql}, headers=PAGE)
    assert found.status_code == 400
    assert "<mark>&#39;flue&#39;</mark>" in found.text
    assert " " * len("WHERE disease = ") + "^" * len("'flue'") in found.text
    fix = html.unescape(re.search(r'class="button fix" href="([^"]+)"', found.text)[1])
    corrected = client.get(fix, headers=PAGE)
    assert corrected.status_code == 200
    assert parse_qs(urlsplit(fix).query)["sql"] == [sql.replace("flue", "flu")]


@pytest.mark.parametrize(
    ("sql", "fixed"),
    [
        ("SELECT * FROM release WHERE age > 40", "SELECT COUNT(*) AS n FROM release WHERE age > 40"),
        ("SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM release"),
        ("SELECT sexx, COUNT(*) FROM release GROUP BY 1", None),
        ("SELECT *, MAX(disease) AS m FROM release", None),  # the obvious correction would be refused as well
        ("SELECT sex, COUNT(*) FROM release", "SELECT sex, COUNT(*) FROM release GROUP BY sex"),
        ("SELECT sex, COUNT(*) FROM release LIMIT 3", "SELECT sex, COUNT(*) FROM release GROUP BY sex LIMIT 3"),
    ],
)
def test_every_proposal_is_answered(client: httpx.Client, sql: str, fixed: str | None) -> None:
    text = client.get("/people/ask", params={"sql": sql}, headers=PAGE).text
    fixes = [html.unescape(link) for link in re.findall(r'class="button fix" href="([^"]+)"', text)]
    assert fixed is None or parse_qs(urlsplit(fixes[0]).query)["sql"] == [fixed]
    for fix in fixes:
        assert client.get(fix, headers=PAGE).status_code == 200


def test_places_in_a_question_of_several_lines() -> None:
    refusal = Refusal(type="QueryError", message="", sql="ab\ncd\nef", position=(4, 5))
    assert refusal.pointed == (("ab", "", ""), ("c", "d", ""), ("ef", "", ""))
    assert Refusal(type="QueryError", message="", sql="ab", position=(2, 2)).pointed == (("ab", " ", ""),)


@pytest.mark.parametrize("path", [ODD, f"{ODD}/ask", f'{ODD}/ask?what=count&c0=<b>what</b>&o0=in&g0=the "side"'])
def test_awkward_names_and_values_stay_text(client: httpx.Client, path: str) -> None:
    text = client.get(path, headers=PAGE).text
    assert SCRIPT not in text
    assert "<b>what</b>" not in text
    assert "&lt;b&gt;what&lt;/b&gt;" in text


def test_awkward_values_in_an_answer(client: httpx.Client) -> None:
    sql = 'SELECT "the ""side""", COUNT(*) AS "<i>n</i>" FROM release GROUP BY "the ""side"""'
    found = client.get(f"{ODD}/ask", params={"sql": sql}, headers=PAGE)
    assert found.status_code == 200, found.text
    for value in (SCRIPT, "<i>n</i>", QUOTES):
        assert value not in found.text
    assert ARABIC in found.text
    spec = json.loads(html.unescape(re.search(r'data-spec="([^"]+)"', found.text)[1]))
    assert {point["key"] for point in spec["data"]["values"]} == {SCRIPT, QUOTES, ARABIC}


def test_every_value_of_500_can_be_chosen(client: httpx.Client) -> None:
    text = client.get(f"{ODD}/builder", params={"what": "count", "c0": "<b>what</b>", "o0": "in"}, headers=PAGE).text
    assert text.count('type="checkbox"') == 500
    chosen = {"what": "count", "c0": "<b>what</b>", "o0": "in", "v0": [QUOTES, SCRIPT]}
    answered = client.get(f"{ODD}/answer", params=chosen, headers=PAGE)
    assert answered.status_code == 200
    assert answered.headers["hx-push-url"].startswith("/it%27s%20%3Codd%3E/ask?what=count")


def test_an_unfinished_form_is_told_so(client: httpx.Client) -> None:
    found = client.get("/people/answer", params={"what": "average"}, headers=PAGE)
    assert found.status_code == 400
    assert "choose a column of numbers" in found.text
    assert "<form" not in found.text


def test_the_kind_of_chart_follows_from_the_question(releases: tuple[Path, ...]) -> None:
    release, bounded = sfumato.open_release(releases[0]), sfumato.open_release(releases[1])

    def marks(sql: str, on: sfumato.Release = release) -> list[str]:
        spec = chart(on.sql(sql), sql)
        return [] if spec is None else [layer["mark"]["type"] for layer in spec["layer"]]

    by_sex = "FROM release WHERE disease = 'flu' GROUP BY sex"
    assert marks(f"SELECT sex, COUNT(*) AS n {by_sex}") == ["bar", "rule"]
    assert marks(f"SELECT sex, AVG(age) AS a {by_sex}") == ["rule", "point"]
    assert marks("SELECT age, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY age") == [
        "rule",
        "line",
        "point",
    ]
    assert marks("SELECT COUNT(*) AS n FROM release") == []
    assert marks("SELECT age, sex, number, COUNT(*) AS n FROM release GROUP BY age, sex, number") == []
    spec = chart(bounded.sql(f"SELECT sex, COUNT(*) AS n {by_sex}"), f"SELECT sex, COUNT(*) AS n {by_sex}")
    assert spec is not None
    assert all(point["value"] is None and point["low"] < point["high"] for point in spec["data"]["values"])


def test_a_page_draws_a_bounded_number_of_cells(releases: tuple[Path, ...]) -> None:
    numbers = ", ".join(f"COUNT(*) AS k{i}" for i in range(40))
    sql = f"SELECT number, {numbers} FROM release GROUP BY number"
    shown = present(sfumato.open_release(releases[0]).sql(sql), sql)
    assert len(shown["rows"]) == MOST_CELLS // 40
    assert len(shown["rows"]) + shown["more"] == shown["total"] == 1246


class Looks:
    """Answers with the number of times it was asked."""

    times = 0

    def __call__(self, task: Any) -> Reply:
        self.times += 1
        return Reply(shown={"values": {"times": self.times}, "examples": []})


def test_those_who_come_at_once_share_one_look() -> None:
    async def walk() -> list[dict[str, Any]]:
        pool = Pool(make=Looks, size=1, queue=9, time_limit=60, memory_mib=2048)
        service = Service(served={}, settings=Settings(), pool=pool, stamp="")
        await pool.start()
        release = Served(name="people", folder=Path(), digest="", document={})
        try:
            return await asyncio.gather(*(service.vocabulary(release) for _ in range(5)))
        finally:
            await pool.stop()

    assert {found["values"]["times"] for found in asyncio.run(walk())} == {1}


def test_the_readers_table(releases: tuple[Path, ...]) -> None:
    served = catalogue([releases[0]])["people"]
    context = {"release": served, "vocabulary": {"values": {}, "examples": []}, "trust_words": "", "parameters": {}}
    context |= {"lines": {"shell": "", "python": ""}, "sizes": {}}
    readers = [
        {"words": "a reader", "held": held, "posterior": p} for held, p in ((True, 0.5), (False, 1), (None, None))
    ]
    page = layout("x").env.get_template("release.html")
    text = " ".join(page.render(context | {"readers": readers}).split())
    assert re.findall(r"<td>(yes|no|not stated)</td><td class=.number.>([^<]*)<", text) == [
        ("yes", "0.5"),
        ("no", "1"),
        ("not stated", ""),
    ]
    assert "a reader" not in page.render(context | {"readers": []})


def test_pages_for_people_that_lead_nowhere(client: httpx.Client) -> None:
    found = client.get("/nobody", headers=PAGE)
    assert found.status_code == 404
    assert "There is no release under this name" in found.text
    assert found.headers["content-type"].startswith("text/html")
