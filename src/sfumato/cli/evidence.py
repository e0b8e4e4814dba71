"""The commands that show what the package does: demo, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .options import DEMO
from .teaching import option
from .terminal import say


def demo(
    out: Annotated[str, option("--out", "folder for the release", example="try", metavar="FOLDER")] = DEMO,
) -> None:
    """Publish the bundled table, ask it questions, and show every answer beside the truth.

    Example: sfumato demo
    """
    from .demo import run

    for line in run(Path(out)):
        say(line)


def reproduce(
    paper: Annotated[
        str, typer.Argument(help="pp, splu, distribution, rr or channels", metavar="PAPER", show_default=False)
    ] = "pp|splu|distribution|rr|channels",
) -> None:
    """Say where the papers' tables and figures are repeated: not here, but in the repository.

    Example: sfumato reproduce rr
    """
    raise SpecError(f"the papers are reproduced from sfumato's repository: python -m papers {paper}", field="paper")
