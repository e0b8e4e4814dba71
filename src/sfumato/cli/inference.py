"""The commands for conclusions: fit, test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..errors import SpecError
from .options import NONE, ReleasePath
from .teaching import option
from .terminal import say, say_json

if TYPE_CHECKING:
    from ..methods.shared.linear_functionals import Target

ROWS, ERRORS, OUTPUT = "Rows and levels", "Errors", "Output"
Where = Annotated[
    str | None,
    option(
        "--where",
        "an SQL condition: only rows that meet it",
        example='"age >= 18"',
        without="all rows",
        metavar="SQL",
        rich_help_panel=ROWS,
    ),
]
Recoding = Annotated[
    str | None,
    option(
        "--recode",
        'merged levels: {"column": {"level": ["value", ...]}}',
        example="groups.json",
        without=NONE,
        metavar="FILE.json",
        rich_help_panel=ROWS,
    ),
]
TargetName = Annotated[
    str,
    option(
        "--target",
        "errors for a population of which the table is a sample, or for the table",
        example="table",
        metavar="NAME",
        rich_help_panel=ERRORS,
    ),
]
Level = Annotated[float, option("--level", "confidence level", example="0.99", metavar="SHARE", rich_help_panel=ERRORS)]
MOST_BYTES = 10_000_000


def fit(
    release: ReleasePath,
    formula: Annotated[str, typer.Argument(help="outcome ~ terms", metavar="FORMULA")],
    family: Annotated[
        str,
        option(
            "--family",
            "gaussian, binomial, poisson or multinomial",
            example="binomial",
            metavar="NAME",
            rich_help_panel="Model",
        ),
    ] = "gaussian",
    where: Where = None,
    recode: Recoding = None,
    weights: Annotated[
        str | None,
        option(
            "--weights",
            "a column of numbers",
            example="hours",
            without="every row counts once",
            metavar="COLUMN",
            rich_help_panel=ROWS,
        ),
    ] = None,
    target: TargetName = "population",
    level: Level = 0.95,
    form: Annotated[
        str, option("--format", "table, json or csv", example="json", metavar="NAME", rich_help_panel=OUTPUT)
    ] = "table",
    report: Annotated[
        str | None,
        option(
            "--report",
            "also write an HTML page with a plot",
            example="fit.html",
            without=NONE,
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool, option("--force", "let the page replace a file that is no page of ours", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Fit a regression: the coefficients of the original rows, with errors that know the noise.

    Example: sfumato fit out "income ~ age + C(sex) + C(occupation)" --family binomial --recode groups.json
    """
    from ..query import open_release
    from ..reports.report_files import check_places, write_html

    _check_form(form, ("table", "json", "csv"))
    check_places({"--report": report}, source=release, force=force, twins=False)
    found = open_release(release).fit(
        formula,
        family=family,
        where=where,
        weights=weights,
        recode=recode_file(recode),
        target=target,
        level=level,
    )
    if report is not None:
        write_html(report, found.to_html(), force=force)
    if form == "json":
        say(found.to_json())
    elif form == "csv":
        say(found.to_csv().rstrip("\n"))
    else:
        say(found.summary())


def independence(
    release: ReleasePath,
    x: Annotated[str, typer.Argument(help="a column", metavar="X")],
    y: Annotated[str, typer.Argument(help="another column", metavar="Y")],
    where: Where = None,
    recode: Recoding = None,
    target: TargetName = "population",
    level: Level = 0.95,
    form: Annotated[
        str, option("--format", "table or json", example="json", metavar="NAME", rich_help_panel=OUTPUT)
    ] = "table",
) -> None:
    """Test whether two columns go together, and how strongly.

    Example: sfumato test out sex occupation
    """
    from ..query import open_release

    _check_form(form, ("table", "json"))
    found = open_release(release).test(
        x, y, where=where, recode=recode_file(recode), target=cast("Target", target), level=level
    )
    if form == "json":
        say_json(found.to_dict())
    else:
        say(str(found))


def recode_file(file: str | None) -> dict[str, Any] | None:
    """The merged levels that a file states."""
    if file is None:
        return None
    path = Path(file)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(f'the file "{path.name}" is too large for a list of levels', field="recode")
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, RecursionError):
        raise SpecError(f'the file "{path.name}" cannot be read', field="recode") from None
    except json.JSONDecodeError as error:
        raise SpecError(f'"{path.name}" is not JSON at line {error.lineno}', field="recode") from None
    shape = isinstance(found, dict) and all(
        isinstance(levels, dict) and all(isinstance(held, list) for held in levels.values())
        for levels in found.values()
    )
    if not shape:
        raise SpecError(
            f'"{path.name}" must be like {{"column": {{"level": ["value", "value"]}}}}; null stands for missing',
            field="recode",
        )
    return cast("dict[str, Any]", found)


def _check_form(form: str, allowed: tuple[str, ...]) -> None:
    if form not in allowed:
        raise SpecError(f'--format is {", ".join(allowed[:-1])} or {allowed[-1]}, got "{form}"', field="format")
