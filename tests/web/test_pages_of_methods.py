"""The analysts' pages over releases of every method, with names and values that an honest table may hold."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pytest

import sfumato
from serving import UNHURRIED, running
from sfumato.methods import REGISTRY

pytestmark = pytest.mark.slow  # nine releases are published

PAGE = {"accept": "text/html"}
FRAGMENT = PAGE | {"hx-request": "true"}
SAID = "it said"
WORDS = np.array(["", "50%", "a_b", "NULL", 'O\'Brien "x"', "ok"])
SPECS = {
    "subset-response": sfumato.SubsetResponse(rho1="1/5", rho2="1/2"),
    "uniform": sfumato.UniformPerturbation(rho1="1/5", rho2="1/2"),
    "small-domain": sfumato.SmallDomain(rho1="1/5", rho2="1/2"),
    "splu": sfumato.Splu(gamma=3),
    "target-distribution": sfumato.TargetDistribution(partition_by=["t"]),
    "randomized-response": sfumato.RandomizedResponse(scope="both", risk="1/2"),
    "anatomy": sfumato.Anatomy(l=3),
    "l-diversity": sfumato.LDiversity(l=2),
    "distribution-draw": sfumato.DistributionDraw(),
}


def table() -> pa.Table:
    """200 rows; columns are called as answers call theirs, or hold what means something in an address."""
    rng = np.random.default_rng(1)
    rows = 200
    words = [WORDS[np.concatenate([np.arange(6), rng.integers(0, 6, rows - 6)])] for _ in range(2)]
    return pa.table(
        {
            SAID: pa.array(words[0]),
            "n": pa.array(rng.integers(0, 30, rows), pa.int32()),
            "t": pa.array(rng.random(rows) < 0.5),
            "a.b": pa.array(words[1]),
            "50% #?/c": pa.array(rng.integers(0, 90, rows), pa.int16()),
            "share": pa.array(rng.normal(10, 3, rows).round(1)),
            "d": pa.array(np.datetime64("2020-01-01") + rng.integers(0, 400, rows)),
        }
    )


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server with a release of every method."""
    folder, people = tmp_path_factory.mktemp("methods"), table()
    assert set(SPECS) == set(REGISTRY)
    for name, spec in SPECS.items():
        roles = sfumato.Roles(sensitive=SAID, quasi=["t", "a.b"], insensitive=["n", "50% #?/c", "share", "d"])
        sfumato.publish(people, folder / name, roles=roles, method=spec, seed=3)
    places: tuple[Path, ...] = tuple(folder / name for name in SPECS)
    options = ("--workers", "1", *UNHURRIED)
    with running(*places, options=options) as server, httpx.Client(base_url=server.url, timeout=180) as found:
        yield found


FORMS = (
    {"what": "count", "g0": "n", "c0": SAID, "o0": "has", "v0": "a_b"},  # the number may not be called n then
    {"what": "share", "cs": SAID, "os": "empty", "g0": "share", "s0": "10"},
)


@pytest.mark.parametrize("method", SPECS)
def test_pages_forms_and_links_of_a_release(asked: httpx.Client, method: str) -> None:
    about = asked.get(f"/{method}", headers=PAGE)
    assert about.status_code == 200
    assert f"{SAID}_set" not in about.text  # a number that the method added is no column to ask for
    vocabulary = asked.get(f"/{method}/vocabulary").json()
    assert {c["name"] for c in vocabulary["columns"]} == set(table().column_names)
    assert vocabulary["examples"]
    assert asked.get(f"/{method}/query", params={"sql": vocabulary["examples"][-1]["sql"]}).status_code == 200
    for form in FORMS:
        found = asked.get(f"/{method}/answer", params=form | {"level": "0.9999999"}, headers=FRAGMENT)
        assert found.status_code == 200, (form, found.text)
        page, _, document, _ = (html.unescape(x) for x in re.findall(r'href="(/[^"]*digest=[^"]*)"', found.text))
        assert asked.get(page.partition("#")[0], headers=PAGE).status_code == 200, page
        json.loads(asked.get(document).text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.mark.parametrize("method", SPECS)
def test_fits_and_tests_are_answered_or_refused_in_words(asked: httpx.Client, method: str) -> None:
    """Columns as a table may call them; a method that cannot says so, and nothing is a fault of the server."""
    for fields in ({"formula": "share ~ t"}, {"formula": f"n ~ C(`{SAID}`)"}, {"x": "t", "y": SAID}):
        found = asked.get(f"/{method}/conclusion", params=fields, headers=FRAGMENT)
        assert found.status_code in {200, 400}, (fields, found.text)
        assert "fault of the server" not in found.text
        assert ("answer-title" in found.text) == (found.status_code == 200)
        if found.status_code == 200:
            page, *files = (html.unescape(x) for x in re.findall(r'href="(/[^"]*digest=[^"]*)"', found.text))
            assert asked.get(page.partition("#")[0], headers=PAGE).status_code == 200, page
            assert all(asked.get(file).status_code == 200 for file in files)
    plain = asked.get(f"/{method}/fit", params={"formula": "share ~ t"})
    assert plain.status_code == 200 or plain.json()["error"]["type"] == "UnsupportedQuery", plain.text
