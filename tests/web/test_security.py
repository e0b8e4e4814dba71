"""What a public server must withstand: names, headers, sizes, floods, runaway questions; and what it must not log."""

from __future__ import annotations

import concurrent.futures
import json
import re
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest

from serving import PATIENCE, SRC, Running, running
from sfumato.web.server import allowed_hosts, host_name, masked

COUNT = "SELECT COUNT(*) AS n FROM release"
NAMES = ", ".join(f'"column {i:02d}"' for i in range(10))
# estimates of 1,024 groupings of 6,000 rows: 6 seconds on an idle machine
RUNAWAY = f"""SELECT {NAMES}, COUNT(*) AS n FROM release WHERE "<b>what</b>" < 'value 100' GROUP BY CUBE ({NAMES})"""


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::2]"])
@pytest.mark.parametrize("path", ["/", "/people", "/people/query?sql=SELECT+1", "/healthz", "/static/x/app.js"])
def test_another_host_name_is_turned_away(client: httpx.Client, host: str, path: str) -> None:
    found = client.get(path, headers={"host": host})
    assert found.status_code in {400, 421}
    assert "people" not in found.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8001", "127.0.0.1:1", "[::1]:80"])
def test_loopback_names_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_names_of_hosts() -> None:
    assert host_name("[::1]:80") == "::1"
    assert host_name("Example.ORG.:80") == "example.org"
    assert allowed_hosts("0.0.0.0", ("data.example",)) == ("localhost", "127.0.0.1", "::1", "data.example")
    assert "10.0.0.7" in allowed_hosts("10.0.0.7", ())


def raw(url: str, request: bytes) -> bytes:
    """What the server sends back to these bytes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(request)
        return connection.recv(65536)


def test_a_small_answer_does_not_wait(server: Running) -> None:
    """Nagle's algorithm is off: head and body leave at once, not 40 ms apart; the best of many rounds shows it."""
    with httpx.Client(base_url=server.url) as client:
        rounds = [client.get("/healthz").elapsed.total_seconds() for _ in range(60)]
    assert min(rounds[1:]) < 0.035


def test_two_host_headers_are_refused(server: Running) -> None:
    found = raw(server.url, b"GET /people HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
    assert re.match(rb"HTTP/1.1 4(00|21)", found)


def test_a_length_that_is_stated_twice_ends_the_connection(server: Running) -> None:
    """What follows such a body is never read as a request: a proxy may have taken another part of it for the body."""
    found = raw(
        server.url,
        b"POST /people/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )
    assert found.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in found.lower()
    assert found.count(b"HTTP/1.1 ") == 1


def test_every_kind_of_response_carries_the_policy(client: httpx.Client) -> None:
    page = {"accept": "text/html"}
    for found in (
        client.get("/", headers=page),
        client.get("/people/ask", headers=page),
        client.get("/people/query", params={"sql": COUNT}),
        client.get("/people/query"),
        client.get("/nothing", headers=page),
        client.get("/", headers={"host": "evil.example"}),
        client.put("/people/query"),
        client.get("/people/release.zip"),
    ):
        policy = found.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"
        assert found.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in found.headers


@pytest.mark.parametrize("path", ["/", "/people", "/people/ask?sql=SELECT+COUNT(*)+AS+n+FROM+release", "/nothing"])
def test_no_inline_script_or_style(client: httpx.Client, path: str) -> None:
    text = client.get(path, headers={"accept": "text/html"}).text
    assert re.findall(r"<script(?![^>]* src=)", text) == []
    assert "<style" not in text
    assert re.findall(r"\s(?:style|on\w+)=", text) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", text) == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT"])
def test_it_only_reads(client: httpx.Client, method: str) -> None:
    assert client.request(method, "/people/query").status_code in {400, 405}


@pytest.mark.parametrize("path", ["/people/fit?formula=age~sex", "/people/test?x=sex&y=age", "/people", "/healthz"])
def test_what_is_only_read_says_so_to_a_post(client: httpx.Client, path: str) -> None:
    found = client.post(path, json={})
    assert found.status_code == 405
    assert set(found.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert found.json()["error"]["message"].startswith("POST is not answered at this address, only ")


def test_a_forged_post_from_another_page_is_not_read(client: httpx.Client) -> None:
    forged = {"origin": "https://evil.example", "content-type": "text/plain"}
    found = client.post("/people/query", content=json.dumps({"sql": COUNT}), headers=forged)
    assert found.status_code == 415
    assert "access-control-allow-origin" not in found.headers
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.options("/people/query", headers=asked).headers


def test_origins_are_allowed_one_by_one(releases: tuple[Path, ...]) -> None:
    options = ("--workers", "1", "--cors", "https://good.example", "--allow-host", "Data.example", "--log-sql")
    with running(releases[0], options=options) as server, httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        good = client.get("/people/query", params={"sql": COUNT}, headers={"origin": "https://good.example"})
        assert good.headers["access-control-allow-origin"] == "https://good.example"
        assert "Origin" in good.headers["vary"]
        bad = client.get("/people/query", params={"sql": COUNT}, headers={"origin": "https://bad.example"})
        assert "access-control-allow-origin" not in bad.headers
        asked = {"origin": "https://good.example", "access-control-request-method": "POST"}
        before = client.options("/people/query", headers=asked)
        assert (before.status_code, before.headers["access-control-allow-methods"]) == (200, "GET, POST")
        assert client.get("/healthz", headers={"host": "data.example"}).status_code == 200
        assert client.get("/people/query", params={"sql": f"{COUNT} WHERE disease = 'flu'"}).status_code == 200
        server.logged("disease = 'flu'")


def test_sizes_are_bounded(client: httpx.Client, server: Running) -> None:
    long = f"{COUNT} WHERE age = {'1' * 20_000}"
    assert client.get("/people/query", params={"sql": long}).status_code == 413
    assert client.post("/people/query", json={"sql": "x" * 70_000}).status_code == 413
    chunked = b"POST /people/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunked += b"Transfer-Encoding: chunked\r\n\r\n" + (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 6 + b"0\r\n\r\n"
    assert raw(server.url, chunked).startswith(b"HTTP/1.1 413")
    deep = f"{COUNT} WHERE {'(' * 3000}age = 1{')' * 3000}"
    found = client.get("/people/query", params={"sql": deep})
    assert found.status_code in {400, 504, 507}
    assert client.get("/people/query", params={"sql": COUNT}).status_code == 200


@pytest.mark.slow
def test_a_runaway_question_is_stopped_and_one_too_many_turned_away(releases: tuple[Path, ...]) -> None:
    """The only worker runs away; meanwhile a second question finds no place: 503."""
    options = ("--workers", "1", "--queue", "0", "--time-limit", "10", "--memory", "4096")
    with (
        running(releases[0], releases[2], options=options) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE) as client,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        running_away = pool.submit(client.get, "/it's <odd>/query", params={"sql": RUNAWAY})
        _wait(client, busy=1)
        turned_away = client.get("/people/query", params={"sql": COUNT})
        assert (turned_away.status_code, turned_away.json()["error"]["type"]) == (503, "Busy")
        assert int(turned_away.headers["retry-after"]) > 0
        stopped = running_away.result()
        assert (stopped.status_code, stopped.json()["error"]["type"]) == (504, "OutOfTime")


def _wait(client: httpx.Client, *, busy: int) -> None:
    for _ in range(PATIENCE * 50):
        if client.get("/healthz").json()["busy"] == busy:
            return
        time.sleep(0.02)
    message = f"never {busy} busy"
    raise AssertionError(message)


def test_it_stops_gracefully(releases: tuple[Path, ...]) -> None:
    """A question under way is answered before the server leaves, with exit code 0."""
    options = ("--workers", "1", "--time-limit", "30")
    with running(releases[0], options=options) as server, httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.get, "/people/query", params={"sql": COUNT})
            while not asked.done() and "people" not in server.log:
                if client.get("/healthz").json()["busy"]:
                    break
            code = server.stop(signal.SIGINT)
            assert asked.result().status_code == 200
        assert code == 0
        assert "Traceback" not in server.error_file.read_text()


def test_the_log_holds_no_literal_and_no_address(client: httpx.Client, server: Running) -> None:
    secret = "zqxjsecret"
    client.get("/people/query", params={"sql": f"{COUNT} WHERE disease = '{secret}' AND age = 41234"})
    client.get("/people/query", params={"sql": f"{COUNT} WHERE disease = {secret}"})
    client.get("/people/query", params={"sql": f"{COUNT} WHERE disease = '{secret}"})
    client.get("/people/ask", params={"sql": f"{COUNT} -- {secret}"})
    client.get("/people/answer", params={"what": "count", "c0": "disease", "o0": "is", "v0": secret})
    log = server.logged('"path": "/people/answer"')
    lines = [json.loads(line) for line in log.splitlines()]
    assert secret not in log
    assert "41234" not in log
    assert "127.0.0.1" not in log
    line = next(line for line in lines if line.get("sql", "").endswith("age = ?"))
    assert line["sql"] == "SELECT COUNT ( * ) AS ? FROM release WHERE disease = ? AND age = ?"
    assert {"time", "method", "path", "status", "bytes", "ms", "release", "error"} <= set(line)


def test_an_address_cannot_forge_a_line_of_the_log(client: httpx.Client, server: Running) -> None:
    client.get("/forged%0a%e2%80%a8%c2%85%7b%22time%22:1%7d%c2%9b31m%00")
    log = server.logged("/forged")
    assert log.isascii()
    assert all(isinstance(json.loads(line)["status"], int) for line in log.splitlines())


def test_masking() -> None:
    known = ("age", "the side")
    assert masked("SELECT age FROM release WHERE \"the side\" = E'x' AND John > 3", known).count("?") >= 2
    assert "John" not in masked("SELECT age FROM release WHERE age = John", known)
    assert masked("SELECT 'open", known) == "?"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "release.json"),
        (("{0}", "{0}"), 'two releases are called "people"'),
        (("{0}", "--workers", "0"), "'--workers': Input should be greater"),
        (("{0}", "--cors", "good.example"), "--cors takes an origin"),
        (("{0}", "--port", "99999"), "'--port': Input should be less"),
    ],
)
def test_wrong_starts_are_one_line(releases: tuple[Path, ...], arguments: tuple[str, ...], said: str) -> None:
    import os
    import subprocess
    import sys

    command = [sys.executable, "-m", "sfumato", "serve", *(a.format(releases[0]) for a in arguments)]
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=PATIENCE, check=False)
    assert done.returncode in {1, 2}
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
