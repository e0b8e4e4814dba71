"""The commands that show what the package does: demo, reproduce."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .options import option
from .terminal import say

DEMO = "demo-release"
QUESTIONS = {
    "How many men and women work in sales?": (
        "SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY sex ORDER BY sex"
    ),
    "... in a craft, by level of income?": (
        "SELECT income, COUNT(*) AS n FROM release WHERE occupation = 'Craft-repair' GROUP BY income ORDER BY income"
    ),
    "How many managers and professionals have a degree?": (
        "SELECT COUNT(*) AS n FROM release "
        "WHERE occupation IN ('Exec-managerial', 'Prof-specialty') AND education_num >= 13"
    ),
    "How many people work more than 40 hours a week?": "SELECT COUNT(*) AS n FROM release WHERE hours_per_week > 40",
}


def demonstration(out: Path) -> Iterator[str]:
    """The lines of the demonstration; leaves the release in `out`."""
    from .. import datasets
    from ..choosing import DEFAULT
    from ..choosing.recommend import alternatives
    from ..engines.duckdb.connection import connect
    from ..methods import REGISTRY
    from ..model.public import Roles
    from ..publish import publish
    from ..query import open_release
    from ..reports.text import number, table

    source = datasets.adult()
    yield f"UCI Adult, {source.num_rows:,} people; the sensitive column is occupation."
    roles, rho1, rho2 = Roles(sensitive="occupation", rest="quasi"), Fraction(1, 5), Fraction(1, 2)
    release = publish(
        source,
        out,
        roles=roles,
        method=REGISTRY[DEFAULT].spec(rho1=rho1, rho2=rho2),
        null_as_value=True,
        force=out == Path(DEMO),  # only the folder that a demonstration makes when nobody names another
    )
    yield f"Published in {out}/ by {DEFAULT} ({release.guarantee.trust}): {release.guarantee.statement}"
    own, better = alternatives(source, roles=roles, rho1=rho1, rho2=rho2, null_as_value=True)
    yield from (found.against(own) for found in better)
    opened = open_release(out)
    with connect() as con:
        con.register("release", source)
        for title, sql in QUESTIONS.items():
            answer = opened.sql(sql)
            truth = con.sql(sql).to_arrow_table()["n"].to_pylist()
            header, rows = answer.display()
            rows = [[*row, number(true)] for row, true in zip(rows, truth, strict=True)]
            yield f"\n{title}\n> {sql}\n" + table([*header, "truth"], rows)
    yield f'\nAsk your own: sfumato query {out} "SELECT ... FROM release ..."; what is promised: sfumato inspect {out}'


def demo(
    out: Annotated[str, option("--out FOLDER", "folder for the release", "try")] = DEMO,
) -> None:
    """Publish the bundled table, ask it questions, and show every answer beside the truth.

    Example: sfumato demo
    """
    for line in demonstration(Path(out)):
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
