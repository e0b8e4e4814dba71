"""The report in a real browser: every chart is drawn, nothing fails, nothing is asked of the network."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from browsing import BROWSER
from comparing import people, roles
from sfumato.choosing.compare import compare

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def dump(path: Path) -> str:
    """The page after its scripts have run."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=15000"]
    command += [f"--user-data-dir={path.parent / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"]
    done = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, check=True)
    return done.stdout


def test_every_chart_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("altair", reason="the report extra is not installed")
    pytest.importorskip("vl_convert", reason="the report extra is not installed")
    from sfumato.reports.pages import write_comparison

    document = compare(
        people(rows=2000),
        roles=roles(("area", "sex")),
        bound="1/3",
        releases=1,
        conditions=8,
        methods=["uniform", "small-domain", "anatomy", "laplace"],
        keep_points=30,
        frontier=True,
    )
    list(write_comparison(document, custodian=str(tmp_path / "c.html"), public=str(tmp_path / "p.html")))
    for name, charts in (("c.html", 5), ("p.html", 1)):
        page = dump(tmp_path / name)
        assert "data-failed" not in page
        assert re.search(rf'<body[^>]* data-charts="{charts}"', page)
        assert len(re.findall(r"<(?:canvas|svg)[^>]*class=\"marks\"", page)) == charts
