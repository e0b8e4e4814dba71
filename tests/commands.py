"""The real command line, and how each method is asked for in tests."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sfumato.cli import main
from sfumato.methods import REGISTRY
from sfumato.model.names import option_name

SRC = Path(__file__).parents[1] / "src"
RUN = "from sfumato.cli import program; program()"

# Options that publish the table of `people()` (tests/tables.py) with each method. Small tables, weak guarantees.
METHODS: dict[str, tuple[str, ...]] = {
    name: tuple(part for field, text in method.example.options.items() for part in (option_name(field), text))
    for name, method in REGISTRY.items()
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
    """The finished command `sfumato arguments...`, in this process: the same `main`, without its start-up time."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(cwd or Path.cwd()):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 0
    return Done(code=code, out=out.getvalue(), err=err.getvalue())


def process(*arguments: object, before: str = "", cwd: Path | None = None) -> Done:
    """The finished command in a process of its own, after the lines of Python in `before`."""
    env = {**os.environ, "PYTHONPATH": str(SRC), "NO_COLOR": "1", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", f"{before}\n{RUN}", *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=env)
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)
