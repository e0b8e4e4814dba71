"""Nothing is undocumented: commands, methods, error classes, links."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from benchmarks import record
from tools.build_method_tables import PAGES as TABLES
from tools.build_method_tables import rewritten
from tools.draw_first_screen import FIGURE, drawing

from forgeries import KINDS
from sfumato import errors
from sfumato.audit.attacks import ATTACKS
from sfumato.methods.registry import BUILT_IN
from sfumato.methods.shared.set_lists import best_list, best_width, hit_rates, loss, total_variance
from sfumato.stats.gamma import floor_significant, gamma_bound, keep_probabilities

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_every_command_has_its_heading() -> None:
    from sfumato.cli.application import application

    names = [command.name for command in application(None).registered_commands]
    assert names
    assert [name for name in names if f"\n## {name}\n" not in CLI_PAGE] == []


@pytest.mark.parametrize("page", TABLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_of_readers_are_computed(page: Path, golden: Callable[[Path, str], None]) -> None:
    golden(page, rewritten(page))


def test_the_picture_of_the_first_screen_is_computed(golden: Callable[[Path, str], None]) -> None:
    golden(FIGURE, drawing())


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_every_method_has_its_pages(name: str) -> None:
    """How to use it, with a link to why it works."""
    use, why = ((ROOT / "docs" / folder / f"{name}.md").read_text() for folder in ("methods", "explanation"))
    assert use.startswith(f"# `{name}`")
    assert f"(../explanation/{name}.md)" in use
    assert why.startswith("# ")


def test_every_error_class_has_its_exit_code() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.SfumatoError)]
    for found in classes:
        row = next(line for line in CLI_PAGE.splitlines() if f"`{found.__name__}`" in line)
        assert row.startswith(f"| {found.exit_code} |")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_numbers_of_the_uniform_page() -> None:
    """The table is computed again from its first three columns."""
    text = (ROOT / "docs" / "methods" / "uniform.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (1/\d+) \| (1/\d+) \| (\d+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for rho1, rho2, m, *shown in rows:
        gamma = floor_significant(gamma_bound(Fraction(rho1), Fraction(rho2)), 3)
        p, q = map(float, keep_probabilities(gamma, int(m)))
        error = (10_000 * q * (1 - q)) ** 0.5 / p
        assert shown == [f"{float(gamma):g}", f"{p:.4f}", f"{q:.4f}", f"{error:,.0f}"]


def test_numbers_of_the_subset_response_page() -> None:
    """The table is computed again from its first three columns."""
    text = (ROOT / "docs" / "methods" / "subset-response.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (1/\d+) \| (1/\d+) \| (\d+) \| (.*) \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for rho1, rho2, m, shown in rows:
        gamma, size = floor_significant(gamma_bound(Fraction(rho1), Fraction(rho2)), 3), int(m)
        width = best_width(size, gamma)
        listed = best_list(size, width)
        sets, one = (float(total_variance(size, gamma, w)) for w in (width, 1))
        errors = [(10_000 * v / size) ** 0.5 for v in (sets * (1 + loss(listed, gamma)), one)]
        holds = float(hit_rates(size, gamma, width)[0])
        expected = [f"{float(gamma):g}", str(width), str(len(listed)), f"{holds:.3f}", *(f"{e:,.0f}" for e in errors)]
        assert shown.split(" | ") == expected


def test_style_of_the_pages() -> None:
    words = re.compile(r"\b(simply|obviously)\b", re.IGNORECASE)
    assert [page.name for page in PAGES if words.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("page", record.PAGES, ids=lambda page: page.name)
def test_tables_of_coverage_are_those_measured(page: Path, golden: Callable[[Path, str], None]) -> None:
    golden(page, record.rewritten(page))


def test_the_counts_of_the_security_page() -> None:
    """Written out there, counted here."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    numbers = {"eight": 8, "nine": 9, "ten": 10, "eleven": 11}
    (attacks,) = re.findall(r"^\| (\w+) attacks,", text, re.MULTILINE)
    assert numbers[attacks] == len(ATTACKS)
    assert f"| {len(KINDS)} kinds of forgery" in text


def test_the_settings_that_recommend_is_held_to() -> None:
    found = re.search(r"on (\w+) settings of table", (ROOT / "docs" / "compare.md").read_text(encoding="utf-8"))
    assert found is not None
    source = (ROOT / "tests" / "unit" / "test_recommend.py").read_text(encoding="utf-8")
    rows = re.findall(r"^    \(\d+, \d+, [\d.]+, \"1/\d+\", \"\w+\"\),$", source, re.MULTILINE)
    assert {"twelve": 12, "thirteen": 13, "fourteen": 14}[found[1]] == len(rows)
