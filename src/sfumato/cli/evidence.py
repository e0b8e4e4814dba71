"""The commands that show what the package does: demo, reproduce."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import DEMO, NONE, Json
from .teaching import option
from .terminal import note, say, say_json


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
    paper: Annotated[str, typer.Argument(help="pp, splu, distribution, rr or channels", metavar="PAPER")],
    report: Annotated[
        str | None, option("--report", "HTML file to write", example="rr.html", without=NONE, metavar="FILE")
    ] = None,
    force: Annotated[bool, option("--force", "let reports replace files that are no reports")] = False,
    as_json: Json = False,
) -> None:
    """Repeat a paper's tables and figures: published numbers beside ours, one line on every difference.

    Adult is in the package; larger tables are read from the folder SFUMATO_DATA. Example: sfumato reproduce rr
    """
    from ..papers import render
    from ..papers import reproduce as run
    from ..reports.report_files import check_places

    check_places({"--report": report}, force=force)
    shown = sys.stderr.isatty()
    document = run(paper, (lambda item: typer.echo(f"  {item}", err=True)) if shown else None)
    if report:
        from ..reports.reproduction import write_reproduction

        for path in write_reproduction(document, report, force=force):
            note(f"written: {path}")
    if as_json:
        say_json(document)
    else:
        say(render(document))
