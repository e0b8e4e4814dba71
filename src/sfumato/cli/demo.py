"""`sfumato demo`: the bundled table published, asked, and compared with the truth."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from .. import datasets
from ..choosing import DEFAULT
from ..choosing.default_choice import alternatives
from ..engines.duckdb.connection import connect
from ..methods import REGISTRY
from ..model.public import Roles
from ..publish import publish
from ..query import open_release
from ..reports.text import number, table
from .options import DEMO

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


def run(out: Path) -> Iterator[str]:
    """The lines of the demonstration; leaves the release in `out`."""
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
