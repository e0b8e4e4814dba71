"""The JSON API of a real server: documents, files, error shape, names of answers."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path

import httpx
import jsonschema
import pyarrow.parquet as pq
import pytest

import sfumato
from serving import QUOTES, Running, running, small_release

BY_SEX = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex ORDER BY sex"
ODD = "it's <odd>"


def test_the_answer_is_the_document_of_the_library(client: httpx.Client, releases: tuple[Path, ...]) -> None:
    expected = sfumato.open_release(releases[0]).sql(BY_SEX, level=0.9, simultaneous=True).to_dict()
    options = {"sql": BY_SEX, "level": "0.9", "simultaneous": "1"}
    assert client.get("/people/query", params=options).json() == expected
    body = {"sql": BY_SEX, "level": 0.9, "simultaneous": True}
    assert client.post("/people/query", json=body).json() == expected


def test_the_same_answer_as_csv_and_parquet(client: httpx.Client, releases: tuple[Path, ...]) -> None:
    answer = sfumato.open_release(releases[0]).sql(BY_SEX)
    found = client.get("/people/query", params={"sql": BY_SEX, "format": "csv"})
    assert found.text == answer.to_csv()
    assert found.headers["content-type"].startswith("text/csv")
    found = client.get("/people/query", params={"sql": BY_SEX, "format": "parquet"})
    assert pq.read_table(io.BytesIO(found.content)).to_pylist() == answer.to_arrow().to_pylist()


def test_certain_bounds_travel_too(client: httpx.Client) -> None:
    found = client.get(
        "/bounded/query", params={"sql": "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu'"}
    ).json()
    assert found["kind"] == "bounds"
    assert found["rows"][0]["n"] is None
    assert found["rows"][0]["n_low"] < found["rows"][0]["n_high"]


@pytest.mark.parametrize(
    ("sql", "kind", "marked"),
    [
        ("SELECT * FROM release", "UnsupportedQuery", "*"),
        ("SELECT COUNT(*) FROM release WHERE disease = 'flue'", "QueryError", "'flue'"),
        ("SELECT COUNT(*) FROM release WHERE diseas = 'flu'", "QueryError", "diseas"),
        ("SELECT COUNT(*) FROM release JOIN other USING (age)", "UnsupportedQuery", None),
    ],
)
def test_one_error_shape(client: httpx.Client, sql: str, kind: str, marked: str | None) -> None:
    found = client.get("/people/query", params={"sql": sql})
    assert found.status_code == 400
    assert list(found.json()) == ["error"]
    error = found.json()["error"]
    assert list(error) == ["type", "message", "hint", "position", "sql"]
    assert error["type"] == kind
    assert error["sql"] == sql
    start, end = error["position"]
    assert marked in {None, sql[start:end]}
    assert found.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/people/query", 400),
        ("/people/query?sql=", 400),
        ("/people/query?sql=SELECT+COUNT(*)+FROM+release&level=2", 400),
        ("/people/query?sql=SELECT+COUNT(*)+FROM+release&level=x", 400),
        ("/people/query?sql=SELECT+COUNT(*)+FROM+release&format=xml", 400),
        ("/people/query?sql=SELECT+COUNT(*)+FROM+release&digest=00000000", 409),
        ("/nobody/query?sql=SELECT+COUNT(*)+FROM+release", 404),
        ("/people/files/../../etc/passwd", 404),
        ("/people/files/%2e%2e/people/release.json", 404),
        ("/people/nothing", 404),
        ("/static/nothing/app.js", 404),
    ],
)
def test_wrong_requests_have_the_same_shape(client: httpx.Client, path: str, status: int) -> None:
    found = client.get(path)
    assert found.status_code == status
    assert list(found.json()["error"]) == ["type", "message", "hint", "position", "sql"]


def test_bodies_that_are_no_question(client: httpx.Client) -> None:
    assert client.post("/people/query", content=b"sql=SELECT").status_code == 415
    kind = {"content-type": "application/json"}
    assert client.post("/people/query", content=b"{", headers=kind).status_code == 400
    assert client.post("/people/query", content=b"[]", headers=kind).status_code == 400
    assert client.post("/people/query", content=b"[" * 30_000, headers=kind).status_code == 400
    assert client.post("/people/query", json={"sql": 3}).status_code == 400
    assert client.post("/people/query", json={"sql": BY_SEX, "level": 10**400}).status_code == 400
    half = client.post("/people/query", content=b'{"sql": "SELECT \\ud800"}', headers=kind)
    assert half.status_code == 400
    assert half.json()["error"]["message"] == "the question is not text"


def test_an_answer_has_a_name_that_follows_from_the_release(client: httpx.Client) -> None:
    first = client.get("/people/query", params={"sql": BY_SEX})
    etag = first.headers["etag"]
    assert first.headers["cache-control"] == "public, no-cache"
    again = client.get("/people/query", params={"sql": BY_SEX}, headers={"if-none-match": f'W/"x", {etag}'})
    assert (again.status_code, again.content) == (304, b"")
    for other in ({"sql": BY_SEX, "level": "0.9"}, {"sql": BY_SEX + " "}, {"sql": BY_SEX, "format": "csv"}):
        assert client.get("/people/query", params=other).headers["etag"] != etag
    digest = client.get("/people").json()["digest"]
    named = client.get("/people/query", params={"sql": BY_SEX, "digest": digest[:12]})
    assert "immutable" in named.headers["cache-control"]
    assert named.json() == first.json()


def test_descriptions(client: httpx.Client, releases: tuple[Path, ...]) -> None:
    listed = client.get("/").json()["releases"]
    assert [r["name"] for r in listed] == ["people", "bounded", ODD]
    about = client.get("/people").json()
    manifest = json.loads((releases[0] / "release.json").read_text())
    assert about["digest"] == hashlib.sha256((releases[0] / "release.json").read_bytes()).hexdigest()
    assert about["guarantee"] == manifest["guarantee"]
    assert client.get(f"/{ODD}").json()["name"] == ODD
    words = client.get("/people/explain", params={"sql": BY_SEX}).json()["explanation"]
    assert words == sfumato.open_release(releases[0]).explain(BY_SEX)


def test_the_vocabulary_holds_values_and_examples_that_are_answered(client: httpx.Client) -> None:
    found = client.get("/people/vocabulary").json()
    values = {c["name"]: c["values"] for c in found["columns"]}
    assert values["sex"] == ["f", "m"]
    assert "flu" in values["disease"]
    assert values["age"] is None
    assert len(found["examples"]) >= 3
    for example in found["examples"]:
        assert client.get("/people/query", params={"sql": example["sql"]}).status_code == 200
    odd = client.get(f"/{ODD}/vocabulary").json()
    assert len(odd["columns"]) == 60
    assert QUOTES in odd["columns"][0]["values"]


def test_downloads(client: httpx.Client, releases: tuple[Path, ...], tmp_path: Path) -> None:
    archive = zipfile.ZipFile(io.BytesIO(client.get("/people/release.zip").content))
    assert archive.testzip() is None
    archive.extractall(tmp_path)
    assert sfumato.open_release(tmp_path / "people").manifest == sfumato.open_release(releases[0]).manifest
    rows = list(csv.DictReader(io.StringIO(client.get("/people/data.csv").text)))
    table = pq.read_table(releases[0] / "data.parquet")
    assert [row["disease"] for row in rows] == table["disease"].to_pylist()
    data = (releases[0] / "data.parquet").read_bytes()
    assert client.get("/people/files/data.parquet").content == data
    part = client.get("/people/files/data.parquet", headers={"range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"PAR1")
    text = client.get("/people/files/README.md")
    assert text.headers["content-type"].startswith("text/markdown")
    again = client.get("/people/files/README.md", headers={"if-none-match": text.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_openapi_describes_what_is_there(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    answer = client.get("/people/query", params={"sql": BY_SEX}).json()
    jsonschema.validate(answer, schemas["Answer"])
    jsonschema.validate(client.get("/people/query").json(), schemas["Error"])
    for path in document["paths"]:
        address = path.replace("{release}", "people").replace("{file}", "release.json")
        asked = {"sql": BY_SEX, "formula": "age ~ C(sex)", "x": "sex", "y": "disease"}
        assert client.get(address, params=asked).status_code == 200, path


def test_answers_that_are_too_large_are_refused(client: httpx.Client) -> None:
    by_row = "SELECT number, disease, COUNT(*) AS n FROM release GROUP BY number, disease"
    found = client.get("/people/query", params={"sql": by_row})
    assert found.status_code == 400
    assert found.json()["error"]["type"] == "AnswerTooLarge"
    assert len(client.get("/people/query", params={"sql": f"{by_row} LIMIT 2000"}).json()["rows"]) == 2000


def test_health(client: httpx.Client, server: Running) -> None:
    assert client.get("/healthz").json()["status"] == "ok"
    assert server.process.poll() is None


def test_a_download_of_damaged_pages_is_refused(tmp_path: Path) -> None:
    """Pages that are damaged while the server runs: nothing of them is sent, and no traceback is written."""
    release = small_release(tmp_path / "people")
    with running(release) as server:
        data = release / "data.parquet"
        whole = data.read_bytes()
        data.write_bytes(whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
        with httpx.Client(base_url=server.url) as other:
            assert other.get("/people/data.csv").status_code == 503
        assert server.stop() == 0
        assert "Traceback" not in server.log + server.error_file.read_text()
