"""The commands of whoever has a release: query, inspect, verify, export."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from ..lazily import one_command
from . import deaf
from .late_pandas import without_pandas
from .options import NONE, EngineOptions, Json, ReleasePath, SourceOptions
from .teaching import option
from .terminal import note, say, say_json

DEFAULT_LEVEL = 0.95
QUESTION, ERRORS = "Question", "Errors"


def _refuse(said: Mapping[str, bool], why: str) -> None:
    """Nothing; SpecError for the first option that was said and would not be honoured."""
    for name, given in said.items():
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
            "--file",
            "the question in a file",
            example="question.sql",
            without="the argument, a pipe, or a prompt",
            metavar="FILE.sql",
            rich_help_panel=QUESTION,
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        option(
            "--table",
            "a small table to JOIN (CSV, Parquet)",
            example="jobs=jobs.csv",
            without=NONE,
            metavar="NAME=FILE",
            rich_help_panel=QUESTION,
        ),
    ] = None,
    level: Annotated[
        float, option("--level", "confidence level", example="0.99", metavar="SHARE", rich_help_panel=ERRORS)
    ] = DEFAULT_LEVEL,
    form: Annotated[
        str, option("--format", "table, json or csv", example="json", metavar="NAME", rich_help_panel="Output")
    ] = "table",
    simultaneous: Annotated[
        bool, option("--simultaneous", "level holds for all rows at once", rich_help_panel=ERRORS)
    ] = False,
    estimator: Annotated[
        str | None,
        option(
            "--estimator",
            "another estimator of the method",
            example="plain",
            without="the method's own",
            metavar="NAME",
            rich_help_panel=ERRORS,
        ),
    ] = None,
    population: Annotated[
        bool, option("--population", "errors for a population of which the table is a sample", rich_help_panel=ERRORS)
    ] = False,
    explain: Annotated[
        bool, option("--explain", "say how it would be answered; no data", rich_help_panel=QUESTION)
    ] = False,
) -> None:
    """Ask a release SQL and get every answer with its error.

    Example: sfumato query out "SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY sex"
    """
    one_command()
    without_pandas()
    from ..release.opened import begin_path

    if form not in {"table", "json", "csv"}:
        raise SpecError(f'--format is table, json or csv, got "{form}"', field="format")
    if population and estimator:
        raise SpecError("--population is an estimator of its own; leave --estimator out", field="estimator")
    if sql is not None and file is not None:
        raise SpecError("give the question or --file, not both", field="file")
    if file is not None:
        sql = _text(file)
    elif sql == "-" or (sql is None and not sys.stdin.isatty()):
        sql = sys.stdin.read()
    said = {
        "--format": form != "table",
        "--simultaneous": simultaneous,
        "--estimator": estimator is not None,
        "--population": population,
    }
    if sql is None:
        _refuse(said | {"--explain": explain}, "goes with a question; the prompt does not take it")
    elif explain:
        _refuse(said | {"--level": level != DEFAULT_LEVEL}, "goes with an answer; --explain gives none")
    found, tables = begin_path(release, engine=reading.chosen()), _tables(table)
    from ..query import Release  # with the parser: it takes longer than opening a release

    opened = Release(found)
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
        estimator="population" if population else estimator,
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


def _tables(given: list[str] | None) -> dict[str, str]:
    """Look-up tables: name -> file."""
    tables: dict[str, str] = {}
    for part in given or ():
        name, separator, file = part.partition("=")
        if not separator or not name or not file:
            raise SpecError(f'--table takes NAME=FILE, got "{part}"', field="table")
        tables[name] = file
    return tables


def inspect(release: ReleasePath, as_json: Json = False) -> None:
    """Show method, guarantee, assumptions, columns and sizes of a release.

    Example: sfumato inspect out
    """
    one_command()
    without_pandas()
    from ..release.opened import open_path
    from ..release.verify import describe
    from ..reports.release_text import render

    found = describe(open_path(release))
    if as_json:
        say_json(found)
    else:
        say(render(found))


def verify(
    release: ReleasePath,
    reading: EngineOptions,
    where: SourceOptions,
    test: Annotated[bool, option("--test", "accept a release made with a seed")] = False,
    key: Annotated[
        str | None,
        option(
            "--key",
            "the custodian's public key (PEM); checks the signature",
            example="custodian.pub",
            without="the signature is not looked at",
            metavar="PUB",
        ),
    ] = None,
    truth: Annotated[
        str | None,
        option(
            "--truth",
            "for the custodian: compare with the table",
            example="adult.parquet",
            without="the bundle alone",
            metavar="SOURCE",
        ),
    ] = None,
) -> None:
    """Recompute everything that the bundle states from the bundle alone; exit code 4 where it does not hold.

    Example: sfumato verify out
    """
    one_command()
    without_pandas()
    from ..release.opened import open_path
    from ..release.verify import describe, unseen
    from ..release.verify import verify as check
    from ..reports.readers_text import render_readers

    if truth is None and any(said not in (None, []) for said in vars(where).values()):
        raise SpecError("how to read a table is said, but no table; name it with --truth", field="truth")
    opened = open_path(release, engine=reading.chosen())
    for line in check(opened, test=test):
        say(f"ok  {line}")
    readers = describe(opened)["guarantee"].get("readers")
    if readers:
        say(render_readers(readers))
    if key is not None:
        from ..release.signing import check_signature, read_public

        check_signature(opened.path, read_public(key))
        opened.unchanged()
        say("ok  signed with the private half of this key")
    if truth is not None:
        from ..audit.custody import check_truth

        found = tuple(check_truth(opened, where.source(truth)))
        opened.unchanged()
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
    from ..exporting.export import export as run
    from ..release.opened import begin_path as begin

    check_no_password(target)
    opening = begin(release)
    opening.checked()  # before anything is written
    with opening.beside() as opened:
        contents = run(opened, target, force=force, placed=deaf)
    say(f"{contents.release.manifest.rows:,} rows written")
    note(contents.about["warning"])
    if not contents.weights:
        note(f"{contents.release.method.name} has no weights; ask the release itself with sfumato query")
