"""Reports: self-contained, escaped, and without anything private in the public version."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from comparing import people, roles

pytest.importorskip("altair", reason="the report extra is not installed")
pytest.importorskip("vl_convert", reason="the report extra is not installed")

from sfumato.choosing.compare import compare
from sfumato.reports.pages import drawn, public_document, write_comparison

METHODS = ["uniform", "small-domain", "anatomy", "target-distribution", "distribution-draw", "laplace"]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return compare(
        people(rows=2000),
        roles=roles(("area", "sex")),
        bound="1/3",
        releases=1,
        conditions=8,
        methods=METHODS,
        seed=1,
        keep_points=30,
        frontier=True,
    )


def test_the_custodians_report_has_every_chart_and_a_twin(document: dict[str, Any], tmp_path: Path) -> None:
    paths = list(write_comparison(document, custodian=str(tmp_path / "c.html"), charts=str(tmp_path / "charts")))
    html = (tmp_path / "c.html").read_text()
    assert set(drawn(document)) == {"errors", "frontier", "foreseen", "scatter", "retention"}
    for name in drawn(document):
        assert f'id="chart-{name}"' in html
        assert (tmp_path / "charts" / f"{name}.svg").read_text().startswith("<svg")
        assert (tmp_path / "charts" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "c.json").read_text())["bound"] == "1/3"
    assert all(path.exists() for path in paths)


def test_a_report_asks_no_network(document: dict[str, Any], tmp_path: Path) -> None:
    list(write_comparison(document, custodian=str(tmp_path / "c.html")))
    html = (tmp_path / "c.html").read_text()
    outside = re.sub(r"<script>.*?</script>", "<script></script>", html, flags=re.DOTALL)
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", outside)
    assert "default-src 'none'" in html


def test_the_public_report_holds_nothing_private(document: dict[str, Any], tmp_path: Path) -> None:
    list(write_comparison(document, public=str(tmp_path / "p.html")))
    twin = json.loads((tmp_path / "p.json").read_text())
    private = {"expected_error", "observed_error", "points", "reconstruction", "reason", "rows", "coverage", "frontier"}

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {k for v in value.values() for k in keys(v)}
        return {k for v in value for k in keys(v)} if isinstance(value, list) else set()

    assert not private & keys(twin)
    assert set(drawn(public_document(document))) <= {"retention"}
    html = (tmp_path / "p.html").read_text()
    assert "private: for the custodian" not in html
    assert "What each promises" in html


def test_texts_are_escaped(document: dict[str, Any], tmp_path: Path) -> None:
    attack = "</script><script>alert(1)</script>"
    methods = [dict(m) for m in document["methods"]]
    methods[0]["points"] = [{"true": 1.0, "estimate": 2.0}]
    methods[0]["method"] = attack
    list(write_comparison(document | {"sensitive": [attack], "methods": methods}, custodian=str(tmp_path / "c.html")))
    assert attack not in (tmp_path / "c.html").read_text()
