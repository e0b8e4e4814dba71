"""The real command line in its own process, and how each method is asked for in tests."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("sfumato.cli")

SRC = Path(__file__).parents[1] / "src"
RUN = "from sfumato.cli import main; main()"

# Options that publish the table of `people()` (tests/tables.py) with each method. Small tables, weak guarantees.
METHODS: dict[str, tuple[str, ...]] = {
    "uniform": ("--rho1", "1/5", "--rho2", "1/3"),
    "anatomy": ("--l", "3"),
    "target-distribution": ("--partition-by", "sex"),
    "small-domain": ("--rho1", "1/5", "--rho2", "1/3", "--min-size", "50"),
    "splu": ("--gamma", "3"),
    "distribution-draw": (),
    "randomized-response": ("--risk", "1/3"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Everything it printed."""
        return self.out + self.err


def sfumato(*arguments: object, cwd: Path | None = None) -> Done:
    """The finished command `sfumato arguments...`."""
    env = {**os.environ, "PYTHONPATH": str(SRC), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
    command = [sys.executable, "-c", RUN, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=env)
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)
