"""The command of whoever has a release and the table it was made of: audit."""

from __future__ import annotations

from typing import Annotated

from .options import NONE, Json, ReleasePath, SourceOptions
from .teaching import option
from .terminal import say, say_json


def audit(
    release: ReleasePath,
    truth: Annotated[str, option("--truth", "the table it was made of", example="adult.parquet", metavar="SOURCE")],
    where: SourceOptions,
    second: Annotated[
        str | None,
        option("--second", "another release of the same table", example="out2", without=NONE, metavar="RELEASE"),
    ] = None,
    targets: Annotated[int, option("--targets", "people to attack", example="5000", min=50, metavar="NUMBER")] = 1000,
    as_json: Json = False,
    report: Annotated[
        str | None,
        option(
            "--report",
            "HTML file to write",
            example="audit.html",
            without=NONE,
            metavar="FILE",
            rich_help_panel="Output",
        ),
    ] = None,
    force: Annotated[bool, option("--force", "replace the report", rich_help_panel="Output")] = False,
) -> None:
    """Attack a release in every way that is built in, and count the successes beside what it promises.

    For the custodian: it looks at the original table to score. Example: sfumato audit out --truth adult.parquet
    """
    from ..audit.score import audit as run
    from ..query import open_release
    from ..reports.audit_text import audit_page, render
    from ..reports.report_files import check_places, write_html

    check_places({"--report": report}, source=truth, force=force, twins=False)

    other = None if second is None else open_release(second).opened
    attacked = open_release(release).opened
    document = run(attacked, where.source(truth), second=other, targets=targets)
    for opened in filter(None, (attacked, other)):
        opened.check_unchanged()
    if report is not None:
        write_html(report, audit_page(document), force=force)
    if as_json:
        say_json(document)
    else:
        say(render(document))
