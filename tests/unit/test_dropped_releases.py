"""A release that nobody holds any more is closed at once: a database has threads and memory of its own."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

import sfumato as sf
from forgeries import RELEASES

QUESTION = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", list(RELEASES))
def test_a_release_goes_with_the_last_who_holds_it(name: str, asked: bool, honest_releases: dict[str, Path]) -> None:
    """Without Python's search for objects that hold each other, which may come late."""
    gc.collect()
    gc.disable()
    try:
        release = sf.open_release(honest_releases[name])
        if asked:
            release.sql(QUESTION)
            release.sql(QUESTION)
        held = weakref.ref(release.opened.reader)
        del release
        assert held() is None
    finally:
        gc.enable()
