"""The pages of `make docs` in a real Chromium: complete without any other host, opened as files and from a server."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

import sfumato
from browsing import until, watched_page

pytest.importorskip("mkdocs")
ELSEWHERE = re.compile(r"""(?:src|href)=["']?(?:https?:)?//[^"'> ]+|url\(["']?(?:https?:)?//[^)]+""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages; a warning of the builder is an error, a link that leads nowhere is a warning."""
    from tools.build_site import build_site

    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """The address of a server of the pages."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def found_by_searching(browser: Any, url: str, words: str) -> list[str]:
    """Titles of the pages that the search finds."""
    with watched_page(browser, url) as page:
        page.goto(urljoin(url, "index.html"))
        page.keyboard.press("s")  # the theme's key for the search field
        page.locator("input[name=query]").press_sequentially(words)
        until(page, "document.querySelectorAll('.md-search-result__item').length > 0")
        titles: list[str] = page.locator(".md-search-result__item h1").all_inner_texts()
        page.locator(".md-search-result__item a").first.click()
        until(page, f"location.href.startsWith({url!r}) && !location.pathname.endsWith('/index.html')")
    return titles


def test_searching_pages_that_are_opened_as_files(browser: Any, site: Path) -> None:
    titles = found_by_searching(browser, f"{site.as_uri()}/", "VerificationError")
    assert any("Errors" in title for title in titles), titles


def test_searching_pages_that_a_server_sends(browser: Any, served: str) -> None:
    titles = found_by_searching(browser, served, "hospital")
    assert any("hospital" in title for title in titles), titles


def test_no_page_asks_another_host_for_anything(site: Path) -> None:
    """Links that people follow may leave; what a browser fetches by itself may not."""
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = re.sub(r"<a [^>]*>", "", file.read_text(encoding="utf-8"))
        text = re.sub(r'<link rel="?canonical"?[^>]*>', "", text)
        assert ELSEWHERE.findall(text) == [], file.name
    assert ELSEWHERE.findall('<script src="https://unpkg.com/x"></script>')  # the checker itself


def test_every_public_name_has_a_page(site: Path) -> None:
    for name in set(sfumato.__all__) - {"__version__"}:
        text = (site / "reference" / "names" / f"{name}.html").read_text(encoding="utf-8")
        assert "doc-contents" in text, name
        assert f"<code>{name}</code>" in text


def test_a_picture_that_a_page_shows_is_there(site: Path) -> None:
    shown = 0
    for file in set(site.rglob("*.html")) - {
        site / "404.html"
    }:  # a server sends it for any address: its own are absolute
        for source in re.findall(r'<img [^>]*?src="?([^" >]+)', file.read_text(encoding="utf-8")):
            assert source.startswith("data:") or (file.parent / source).exists(), (file.name, source)
            shown += 1
    assert shown > 10
