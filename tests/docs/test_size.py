"""`make size` counts every line and file of the package, and traces both walks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools import size

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_it_prints_rooms_and_walks() -> None:
    """The sums are counted again here; a walk goes through the modules that it is named after."""
    done = subprocess.run([sys.executable, "-m", "tools.size"], cwd=ROOT, check=True, capture_output=True, text=True)
    printed = {line.split()[0]: line.replace(",", "").split()[1:] for line in done.stdout.splitlines() if line}
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    assert printed["all"] == [str(sum(text.count("\n") for text in files)), str(len(files))]
    assert {"methods", "engines", "cli", "publish", "query"} <= set(printed)
    for walk in size.WALKS:
        entered, functions = map(int, printed[walk])
        assert 10 < entered < functions


def test_a_walk_names_what_it_entered(tmp_path: Path) -> None:
    walks = size.walks(tmp_path)
    assert "publish.py" in {file for file, _ in walks["publish"]}
    assert "query.py" in {file for file, _ in walks["query"]}
    assert not any(file.startswith("methods/subset_response/choosing") for file, _ in walks["query"])
    assert not any("<" in function.split(".")[-1] for _, function in walks["query"])
