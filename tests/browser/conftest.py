"""A real Chromium for each module of this folder; one journey of each page is in `make test`, the others are slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from browsing import BROWSER, chromium

JOURNEYS = {"test_from_choices_to_an_answer", "test_from_a_file_to_a_verified_release", "test_every_chart_is_drawn"}


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.name not in JOURNEYS:
        item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium; a session's would leave its event loop to the tests of other folders."""
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    with chromium() as started:
        yield started
