"""The commands of whoever has a release: query, fit, test, inspect, verify, export."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..errors import SpecError
from .options import NONE, EngineOptions, Json, ReleasePath, SourceOptions, option
from .terminal import note, say, say_json

if TYPE_CHECKING:
    from ..laws.functionals import Target

DEFAULT_LEVEL = 0.95
QUESTION, ROWS, ERRORS, OUTPUT = "Question", "Rows and levels", "Errors", "Output"


Where = Annotated[
    str | None,
    option("--where SQL", "an SQL condition: only rows that meet it", '"age >= 18"', without="all rows", panel=ROWS),
]
Recoding = Annotated[
    str | None,
    option(
        "--recode FILE.json",
        'merged levels: {"column": {"level": ["value", ...]}}',
        "groups.json",
        without=NONE,
        panel=ROWS,
    ),
]
TargetName = Annotated[
    str,
    option(
        "--target NAME",
        "errors for a population of which the table is a sample, or for the table",
        "table",
        panel=ERRORS,
    ),
]
Level = Annotated[float, option("--level SHARE", "confidence level", "0.99", panel=ERRORS)]
MOST_BYTES = 10_000_000


def _refuse(options: Mapping[str, bool], why: str) -> None:
    """Raise SpecError for the first option that was given and would have no effect."""
    for name, given in options.items():
        if given:
            raise SpecError(f"{name} {why}", field=name.removeprefix("--"))


def query(
    release: ReleasePath,
    reading: EngineOptions,
    sql: Annotated[
        str | None, typer.Argument(help="the question; without it a prompt opens, or a pipe is read", metavar="SQL")
    ] = None,
    file: Annotated[
        str | None,
        option(
            "--file FILE.sql",
            "the question in a file",
            "question.sql",
            without="the argument, a pipe, or a prompt",
            panel=QUESTION,
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        option(
            "--table NAME=FILE", "a small table to JOIN (CSV, Parquet)", "jobs=jobs.csv", without=NONE, panel=QUESTION
        ),
    ] = None,
    level: Annotated[float, option("--level SHARE", "confidence level", "0.99", panel=ERRORS)] = DEFAULT_LEVEL,
    form: Annotated[str, option("--format NAME", "table, json or csv", "json", panel="Output")] = "table",
    simultaneous: Annotated[
        bool | None,
        option(
            "--simultaneous/--no-simultaneous",
            "level holds for all rows at once",
            without="where HAVING or LIMIT chooses by estimates",
            panel=ERRORS,
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        option(
            "--estimator NAME", "another estimator of the method", "plain", without="the method's own", panel=ERRORS
        ),
    ] = None,
    explain: Annotated[bool, option("--explain", "say how it would be answered; no data", panel=QUESTION)] = False,
) -> None:
    """Ask a release SQL and get every answer with its error.

    Example: sfumato query out "SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY sex"
    """
    from ..query import open_release

    if form not in {"table", "json", "csv"}:
        raise SpecError(f'--format is table, json or csv, got "{form}"', field="format")
    if sql is not None and file is not None:
        raise SpecError("give the question or --file, not both", field="file")
    if file is not None:
        sql = _text(file)
    elif sql == "-" or (sql is None and not sys.stdin.isatty()):
        sql = sys.stdin.read()
    options = {
        "--format": form != "table",
        "--simultaneous": simultaneous is not None,
        "--estimator": estimator is not None,
    }
    if sql is None:
        _refuse(options | {"--explain": explain}, "goes with a question; the prompt does not take it")
    elif explain:
        _refuse(options | {"--level": level != DEFAULT_LEVEL}, "goes with an answer; --explain gives none")
    tables: dict[str, str] = {}
    for part in table or ():
        name, _, table_file = part.partition("=")
        if not name or not table_file:
            raise SpecError(f'--table takes NAME=FILE, got "{part}"', field="table")
        tables[name] = table_file
    opened = open_release(release, engine=reading.chosen())
    if sql is None:
        from .prompt import terminal

        terminal(opened, level=level)
        return
    sql = sql.strip().removesuffix(";")
    if explain:
        say(opened.explain(sql))
        return
    answer = opened.sql(
        sql,
        level=level,
        simultaneous=simultaneous,
        estimator=estimator,
        tables=tables,
    )
    if form == "json":
        say(answer.to_json())
    elif form == "csv":
        say(answer.to_csv().rstrip("\n"))
    else:
        say(str(answer))


def _text(file: str) -> str:
    """The question in a file."""
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SpecError(f'the file "{Path(file).name}" cannot be read', field="file") from None


def inspect(release: ReleasePath, as_json: Json = False) -> None:
    """Show method, guarantee, assumptions, columns and sizes of a release.

    Example: sfumato inspect out
    """
    from ..release.opened import open_path
    from ..release.verify import describe
    from ..reports.documents import render_release

    found = describe(open_path(release))
    if as_json:
        say_json(found)
    else:
        say(render_release(found))


def verify(
    release: ReleasePath,
    reading: EngineOptions,
    where: SourceOptions,
    test: Annotated[bool, option("--test", "accept a release made with a seed")] = False,
    key: Annotated[
        str | None,
        option(
            "--key PUB",
            "the custodian's public key (PEM); checks the signature",
            "custodian.pub",
            without="the signature is not looked at",
        ),
    ] = None,
    truth: Annotated[
        str | None,
        option(
            "--truth SOURCE", "for the custodian: compare with the table", "adult.parquet", without="the bundle alone"
        ),
    ] = None,
) -> None:
    """Check a release from its files alone: values, columns, order of rows, guarantee; exit code 4 if one is wrong.

    It looks at what readers see, not for bytes hidden beside the values of a file. Example: sfumato verify out
    """
    from ..release.opened import open_path
    from ..release.verify import describe, unseen, verified_lines
    from ..reports.text import render_readers

    if truth is None and any(given not in (None, []) for given in vars(where).values()):
        raise SpecError("how to read a table is said, but no table; name it with --truth", field="truth")
    opened = open_path(release, engine=reading.chosen())
    for line in verified_lines(opened, test=test):
        say(f"ok  {line}")
    readers = describe(opened)["guarantee"].get("readers")
    if readers:
        say(render_readers(readers))
    if key is not None:
        from ..release.verify import check_signature, read_public

        check_signature(opened.path, read_public(key))
        opened.check_unchanged()
        say("ok  signed with the private half of this key")
    if truth is not None:
        from ..audit.score import check_truth

        found = tuple(check_truth(opened, where.source(truth)))
        opened.check_unchanged()
        for line in found:
            say(f"ok  {line}")
    for line in unseen(opened):
        say(f"--  cannot be seen: {line}")


def export(
    release: ReleasePath,
    target: Annotated[
        str,
        typer.Argument(
            help=".csv, .xlsx, .sav, .dta, .sqlite, .duckdb, or postgresql://...?table=SCHEMA", metavar="TARGET"
        ),
    ],
    force: Annotated[bool, option("--force", "replace a file")] = False,
) -> None:
    """Write a release for other tools: rows, value labels, and weights by which plain SQL gives estimates.

    Example: sfumato export out out.duckdb
    """
    from ..engines.source import check_no_password
    from ..exporting import export as run
    from ..release.opened import open_path

    check_no_password(target)
    contents = run(open_path(release), target, force=force)
    say(f"{contents.release.manifest.rows:,} rows written")
    note(contents.about["warning"])
    if not contents.weights:
        note(f"{contents.release.manifest.method} has no weights; ask the release itself with sfumato query")


def fit(
    release: ReleasePath,
    formula: Annotated[str, typer.Argument(help="outcome ~ terms", metavar="FORMULA")],
    family: Annotated[
        str, option("--family NAME", "gaussian, binomial, poisson or multinomial", "binomial", panel="Model")
    ] = "gaussian",
    where: Where = None,
    recode: Recoding = None,
    weights: Annotated[
        str | None,
        option("--weights COLUMN", "a column of numbers", "hours", without="every row counts once", panel=ROWS),
    ] = None,
    target: TargetName = "population",
    level: Level = 0.95,
    form: Annotated[str, option("--format NAME", "table, json or csv", "json", panel=OUTPUT)] = "table",
    report: Annotated[
        str | None,
        option("--report FILE", "also write an HTML page with a plot", "fit.html", without=NONE, panel=OUTPUT),
    ] = None,
    force: Annotated[
        bool, option("--force", "let the page replace a file that is no page of ours", panel=OUTPUT)
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
    form: Annotated[str, option("--format NAME", "table or json", "json", panel=OUTPUT)] = "table",
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
