"""Fits and tests over HTTP: the documents of the library, the page, refusals, every method."""

from __future__ import annotations

import html
import json
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pytest

import sfumato
from serving import Running
from sfumato.web.workers import Question

PAGE = {"accept": "text/html"}
FORMULA = "age ~ C(sex) + number"


@pytest.fixture(scope="module")
def release(releases: tuple[Path, Path, Path]) -> sfumato.Release:
    return sfumato.open_release(releases[0])


def test_a_fit_is_the_document_of_the_library(client: httpx.Client, release: sfumato.Release) -> None:
    asked = {"formula": FORMULA, "where": "age > 20", "level": "0.9"}
    found = client.get("/people/fit", params=asked)
    expected = release.fit(FORMULA, where="age > 20", level=0.9)
    assert found.status_code == 200
    assert found.json() == json.loads(expected.to_json())
    again = client.get("/people/fit", params=asked, headers={"if-none-match": found.headers["etag"]})
    assert again.status_code == 304
    assert client.get("/people/fit", params=asked | {"format": "csv"}).text == expected.to_csv()
    other = client.get("/people/fit", params=asked | {"where": "age > 30"})
    assert other.headers["etag"] != found.headers["etag"]


def test_a_test_is_the_document_of_the_library(client: httpx.Client, release: sfumato.Release) -> None:
    found = client.get("/people/test", params={"x": "sex", "y": "disease"}).json()
    assert found == json.loads(json.dumps(release.test("sex", "disease").to_dict()))


def test_the_page_shows_coefficients_and_the_lines_that_repeat_them(client: httpx.Client) -> None:
    asked = {"formula": FORMULA, "family": "gaussian"}
    for address, headers in (("/people/ask", PAGE), ("/people/conclusion", PAGE | {"hx-request": "true"})):
        text = html.unescape(client.get(address, params=asked, headers=headers).text)
        assert "Intercept" in text
        assert "data-spec" in text
        assert f"sfumato fit people '{FORMULA}'" in text
        assert "95 % interval" in text
    text = html.unescape(client.get("/people/ask", params={"x": "sex", "y": "disease"}, headers=PAGE).text)
    assert "Do sex and disease go together?" in text
    assert "sfumato test people sex disease" in text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"formula": "age ~ __import__('os')"}, "not"),
        ({"formula": "age ~ nothing_like_this"}, "nothing_like_this"),
        ({"formula": "age ~ sex", "family": "cauchy"}, "family"),
        ({"formula": "age ~ sex", "where": "1 = (SELECT 1)"}, ""),
        ({"formula": "age ~ sex", "level": "nan"}, "level"),
        ({"formula": "age ~ sex", "format": "exe"}, "format"),
        ({"formula": "a" * 30_000}, "longer"),
        ({}, "formula"),
    ],
)
def test_bad_fits_are_refused_in_one_line(asked: dict[str, str], said: str, client: httpx.Client) -> None:
    found = client.get("/people/fit", params=asked)
    assert found.status_code in {400, 413}, found.text
    error = found.json()["error"]
    assert error["type"] != "ServerError"
    assert said in error["message"]
    assert "\n" not in error["message"]
    page = client.get("/people/conclusion", params=asked, headers=PAGE | {"hx-request": "true"})
    assert page.status_code in {400, 413} or "format" in asked
    assert "Traceback" not in page.text


def test_a_formula_on_the_page_is_text(client: httpx.Client) -> None:
    """Nothing that was typed becomes markup."""
    asked = {"formula": "<script>alert(1)</script> ~ x", "where": '"><b>'}
    assert "<script>alert" not in client.get("/people/ask", params=asked, headers=PAGE).text


def test_the_log_says_that_a_fit_was_asked_and_not_what_of(server: Running, client: httpx.Client) -> None:
    client.get("/people/fit", params={"formula": "age ~ sex", "where": "age > 31"})
    log = server.logged('"analysis": "fit"')
    assert "age > 31" not in log
    assert "age ~ sex" not in log


@pytest.mark.parametrize(("x", "y"), [("--help", "-x"), (" pad ", "it's"), ("plain", "$(id)")])
def test_lines_repeat_columns_of_any_name(x: str, y: str, tmp_path: Path) -> None:
    """The line of the page, run as it stands, says what the library says."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {x: rng.choice(["a", "b"], 300), y: rng.choice(["c", "d"], 300), "s": rng.choice(list("efg"), 300)}
    )
    roles = sfumato.Roles(sensitive="s", quasi=[x, y])
    method = sfumato.UniformPerturbation(rho1="1/2", rho2="2/3")
    found = sfumato.publish(table, tmp_path / "out", roles=roles, method=method, seed=1)
    line = shlex.split(Question(release="out", kind="test", x=x, y=y, level=0.9).lines()["shell"])
    assert line[0] == "sfumato"
    done = subprocess.run([sys.executable, "-m", *line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == str(found.test(x, y, level=0.9))
