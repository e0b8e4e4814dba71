"""The tables of docs/performance.md are the figures that were measured, with what they say of the targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks import speed_page
from benchmarks.__main__ import PARTS
from benchmarks.measure import Row

from sfumato.methods.registry import BUILT_IN


def test_the_page_has_the_figures_that_were_measured(golden: Callable[[Path, str], None]) -> None:
    golden(speed_page.PAGE, speed_page.rewritten())


def test_every_method_was_measured() -> None:
    found = speed_page.figures()
    assert set(found) <= set(PARTS)
    for part in ("publish", "scale"):
        said = {row["name"] for row in found[part]["figures"]}
        assert all(any(name.startswith(f"{part} {method}") for name in said) for method in BUILT_IN), part


def test_what_is_missed_is_said_to_be() -> None:
    """By the same rule as the benchmark's own verdict."""
    for value in (1.2499, 1.25, 1.2501, 2.5):
        row = Row(name="x", value=value, unit="x", target=1.25)
        told = speed_page._against({"value": value, "target": 1.25})[1]
        assert (told == "met") == (row.verdict == "met")
    assert speed_page._against({"value": 2.5, "target": 1.25})[1] == "**missed by 100.0 %**"
