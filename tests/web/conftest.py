"""One server for all tests of the web pages that do not need limits of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("starlette", reason="the web extra is not installed")
pytest.importorskip("uvicorn", reason="the web extra is not installed")

from serving import UNHURRIED, Running, awkward_release, bounded_release, running, small_release


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A plain release, one with certain bounds, and an awkward one."""
    folder = tmp_path_factory.mktemp("served")
    return small_release(folder / "people"), bounded_release(folder / "bounded"), awkward_release(folder / "it's <odd>")


@pytest.fixture(scope="session")
def server(releases: tuple[Path, Path, Path]) -> Iterator[Running]:
    """The releases behind a server with ordinary limits."""
    with running(*releases, options=("--workers", "2", "--max-rows", "2000", *UNHURRIED)) as found:
        yield found


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    """A client of that server."""
    with httpx.Client(base_url=server.url, timeout=180) as found:
        yield found
