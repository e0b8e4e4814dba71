"""docs/man/sfumato.1 is what the commands say, in a form that man reads."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.build_man_page import CODES, PAGE, page, quoted

from sfumato.cli.application import COMMANDS


def test_the_page_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, page())


def test_every_command_and_exit_code_is_on_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"\n.SS sfumato {name} " in text for name in COMMANDS)
    told = (PAGE.parents[1] / "cli.md").read_text(encoding="utf-8")
    assert all(f"| {code} | {meaning} |" in told for code, meaning in CODES.items())
    assert "\n.B \\-\\-rho1 TEXT\n" in text


def test_a_line_that_begins_like_a_command_of_roff_is_text() -> None:
    assert quoted(".B is\nbold") == "\\&.B is bold"
    assert quoted("a\\b -c") == "a\\eb \\-c"


def test_man_finds_nothing_to_complain_about() -> None:
    groff = shutil.which("groff") or shutil.which("mandoc")
    if groff is None:
        pytest.skip("neither groff nor mandoc is here")
    options = ["-man", "-Tutf8", "-ww", "-z"] if groff.endswith("groff") else ["-T", "lint"]
    done = subprocess.run([groff, *options, str(PAGE)], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
