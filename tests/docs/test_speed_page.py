"""docs/performance.md has the figures that were measured, and says of each budget whether it is met."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks import bench_publish, speed_page
from benchmarks.measure import Row

from sfumato.methods.registry import BUILT_IN


def test_the_page_has_the_figures_that_were_measured(golden: Callable[[Path, str], None]) -> None:
    golden(speed_page.PAGE, speed_page.rewritten())


def test_the_figure_is_of_what_was_measured(golden: Callable[[Path, str], None]) -> None:
    golden(speed_page.FIGURE, speed_page.figure())


def test_every_method_is_measured() -> None:
    assert set(bench_publish.OPTIONS) == set(BUILT_IN)


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(2.9, "met"), (3.0, "met"), (3.0001, "missed by 0.1 %"), (6.0, "missed by 100.0 %"), (float("nan"), "failed")],
)
def test_a_budget_is_met_or_missed_by_how_much(value: float, verdict: str) -> None:
    assert Row(name="publish", value=value, unit="s", budget=3.0).verdict == verdict


def test_recorded_figures_reach_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure measured again replaces the one before; a missed budget is bold; what has no method has a line."""
    for name, text in {"PAGE": speed_page.PAGE.read_text(encoding="utf-8"), "FIGURES": "[]", "FIGURE": ""}.items():
        monkeypatch.setattr(speed_page, name, tmp_path / name)
        (tmp_path / name).write_text(text, encoding="utf-8")
    publish = Row(name="publish uniform, 1,000,000 rows", value=4.5, unit="s", budget=3.0)
    speed_page.record([publish, Row(name="import sfumato", value=0.9, unit="s", budget=0.3)])
    speed_page.record([Row(name="import sfumato", value=0.12, unit="s", budget=0.3)])
    page = speed_page.PAGE.read_text(encoding="utf-8")
    assert "| `uniform` | **4.50 s** (missed by 50.0 %) | - |" in page
    assert "| import sfumato | 0.12 s | 0.30 s | met |" in page
    assert "0.90 s" not in page
    assert "<svg" in speed_page.FIGURE.read_text(encoding="utf-8")
