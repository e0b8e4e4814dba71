"""A server says nothing of files that took the place of those it opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest

from serving import UNHURRIED, running, small_release
from sfumato.errors import VerificationError
from sfumato.web.catalogue import catalogue, rows_as_csv, zipped
from sfumato.web.refusals import Refusal
from sfumato.web.workers import Desk, Question

SQL = "SELECT COUNT(*) AS n FROM release"
PLACES = (
    "people",
    "people/release.zip",
    "people/data.csv",
    "people/files/data.parquet",
    "people/files/release.json",
)


def exchange(release: Path) -> None:
    """Equal files under the same names, as publishing again would put there."""
    shutil.copytree(release, release.with_name("fresh"))
    shutil.rmtree(release)
    release.with_name("fresh").rename(release)


def test_a_release_that_was_replaced_is_refused_everywhere(tmp_path: Path) -> None:
    release = small_release(tmp_path / "people")
    with (
        running(release, options=("--workers", "1", *UNHURRIED)) as server,
        httpx.Client(base_url=server.url, timeout=180) as client,
    ):
        assert client.get("/people/query", params={"sql": SQL}).status_code == 200
        assert all(client.get(f"/{place}").status_code == 200 for place in PLACES)
        exchange(release)
        for sql in (SQL, f"{SQL} WHERE 1 = 1"):  # one whose answer is kept, and one that a worker would count
            refused = client.get("/people/query", params={"sql": sql})
            assert refused.status_code == 503
            error = refused.json()["error"]
            assert error["type"] == "VerificationError"
            assert "changed since this server opened it" in error["message"]
            assert str(tmp_path) not in refused.text
        assert [client.get(f"/{place}").status_code for place in PLACES] == [503] * len(PLACES)
        assert client.get("/people/release.zip", headers={"accept": "text/html"}).status_code == 503
        assert client.get("/healthz").status_code == 200


def test_a_worker_sees_a_change_that_comes_while_it_answers(tmp_path: Path) -> None:
    """It opens releases without digests: they were compared when the server began."""
    served = catalogue([small_release(tmp_path / "people")])
    desk, task = Desk(served, 100), Question(release="people", kind="query", sql=SQL)
    assert not isinstance(desk(task), Refusal)
    exchange(tmp_path / "people")
    for worker in (desk, Desk(served, 100)):
        found = worker(task)
        assert isinstance(found, Refusal)
        assert (found.type, found.status) == ("VerificationError", 503)
    assert not isinstance(Desk(catalogue([tmp_path / "people"]), 100)(task), Refusal)


def test_a_download_is_broken_off_where_a_file_changes(tmp_path: Path) -> None:
    """An archive after its first piece; rows, of which there is one piece, before it."""
    (served,) = catalogue([small_release(tmp_path / "people")]).values()
    archive, rows = zipped(served), rows_as_csv(served)
    next(archive)
    exchange(tmp_path / "people")
    for pieces in (archive, rows):
        with pytest.raises(VerificationError):
            pytest.fail(str(tuple(pieces)))
