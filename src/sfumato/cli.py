"""The command line: arguments in, rendering out; no arithmetic.

Commands are plain functions; the options of methods come from the fields of their specifications, so a new method
brings its own. Errors are one line on stderr and an exit code; `--debug` shows the traceback.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import SfumatoError, SpecError
from .version import __version__

RENAMED = {"keep": "keep-probability"}  # --keep is a role
WITH_METHOD = ("publish", "plan")

Source = Annotated[str, typer.Argument(help="CSV, Parquet (file, glob or folder) or Arrow IPC", metavar="SOURCE")]
ReleasePath = Annotated[str, typer.Argument(help="folder of a release", metavar="RELEASE")]
Columns = list[str] | None
Sensitive = Annotated[Columns, typer.Option("--sa", help="sensitive column(s)", metavar="COLUMNS")]
Quasi = Annotated[Columns, typer.Option("--qi", help="columns a reader may know about people", metavar="COLUMNS")]
Drop = Annotated[Columns, typer.Option("--drop", help="identifying columns, not published", metavar="COLUMNS")]
Keep = Annotated[Columns, typer.Option("--keep", help="insensitive columns, published as they are", metavar="COLUMNS")]
Rest = Annotated[str | None, typer.Option("--rest", help="role of all other columns: quasi, drop or keep")]
Method = Annotated[str, typer.Option("--method", help="name of the method")]
Nulls = Annotated[bool, typer.Option("--null-as-value", help="missing is a sensitive value of its own")]
DomainFiles = Annotated[Columns, typer.Option("--domain", help="declared values, one a line", metavar="COLUMN=FILE")]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="of a CSV file; found in its header otherwise")]
Seed = Annotated[int | None, typer.Option("--seed", help="for tests: stamps the release as reproducible")]
EngineName = Annotated[str, typer.Option("--engine", help="local")]
Memory = Annotated[str, typer.Option("--memory", help="what the engine may hold before it spills to disk")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


def publish(
    source: Source,
    out: Annotated[str, typer.Argument(help="folder to write", metavar="OUT")],
    sa: Sensitive = None,
    qi: Quasi = None,
    drop: Drop = None,
    keep: Keep = None,
    rest: Rest = None,
    method: Method = "uniform",
    seed: Seed = None,
    null_as_value: Nulls = False,
    domain: DomainFiles = None,
    delimiter: Delimiter = None,
    engine: EngineName = "local",
    memory: Memory = "1500MB",
    force: Annotated[bool, typer.Option("--force", help="replace the release in OUT")] = False,
    **options: Any,
) -> None:
    """Publish a table with a stated guarantee.

    Example: sfumato publish adult.parquet out --sa occupation --rest quasi --null-as-value --method uniform
    --rho1 1/5 --rho2 1/3
    """
    from .publish import publish as run

    roles = _roles(sa, qi, drop, keep, rest)
    with _Progress() as progress:
        release = run(
            source,
            out,
            roles=roles,
            method=_spec(method, options),
            seed=seed,
            engine=_engine(engine, memory),
            domains=_domains(domain),
            null_as_value=null_as_value,
            delimiter=delimiter,
            force=force,
            progress=progress,
            notify=_note,
        )
    for unit in release.domains:
        if not unit.declared:
            names, size = ", ".join(unit.columns), len(unit)
            _note(f"the domain of {names} ({size} values) is taken from the data; the release tells which values occur")
    if seed is not None:
        _note("published with a seed: for tests only; anyone with the seed can undo the noise")
    _say(f"{out}: {release.manifest.rows:,} rows by {method} ({release.guarantee.trust})")
    _say(release.guarantee.statement)


def plan(
    source: Source,
    sa: Sensitive = None,
    qi: Quasi = None,
    drop: Drop = None,
    keep: Keep = None,
    rest: Rest = None,
    method: Method = "uniform",
    seed: Seed = None,
    null_as_value: Nulls = False,
    domain: DomainFiles = None,
    delimiter: Delimiter = None,
    engine: EngineName = "local",
    memory: Memory = "1500MB",
    as_json: Json = False,
    full: Annotated[bool, typer.Option("--full", help="with --json: the decoy sets of splu too")] = False,
    page: Annotated[
        str | None, typer.Option("--report", help="also write an HTML page with curves", metavar="FILE")
    ] = None,
    **options: Any,
) -> None:
    """Show what would be published and what it costs; nothing is written. For the custodian: it holds true counts.

    Example: sfumato plan adult.parquet --sa occupation --rest quasi --null-as-value --method uniform --rho1 1/5
    --rho2 1/3
    """
    from .plans import render
    from .publish import prepare
    from .randomness import Secret

    prepared = prepare(
        source,
        roles=_roles(sa, qi, drop, keep, rest),
        method=_spec(method, options),
        secret=Secret.fresh() if seed is None else Secret.from_seed(seed),
        engine=_engine(engine, memory),
        domains=_domains(domain),
        null_as_value=null_as_value,
        delimiter=delimiter,
    )
    report = prepared.report(full=full)
    if page is not None:
        from .charts import plan_page, write_page

        write_page(page, plan_page(report, render(report), prepared.curves()))
    _say(json.dumps(report, ensure_ascii=False, default=str) if as_json else render(report))


def query(
    release: ReleasePath,
    sql: Annotated[str | None, typer.Argument(help="the question; a prompt opens without it", metavar="SQL")] = None,
    level: Annotated[float, typer.Option("--level", help="confidence level")] = 0.95,
    form: Annotated[str, typer.Option("--format", help="table, json or csv")] = "table",
    simultaneous: Annotated[bool, typer.Option("--simultaneous", help="level holds for all rows at once")] = False,
    estimator: Annotated[str | None, typer.Option("--estimator", help="another estimator of the method")] = None,
    population: Annotated[
        bool, typer.Option("--population", help="errors for a population of which the table is a sample")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="say how it would be answered; no data")] = False,
) -> None:
    """Ask a release SQL and get every answer with its error.

    Example: sfumato query out "SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY sex"
    """
    from .query import open_release

    if form not in {"table", "json", "csv"}:
        raise SpecError(f'--format is table, json or csv, got "{form}"', field="format")
    if population and estimator:
        raise SpecError("--population is an estimator of its own; leave --estimator out", field="estimator")
    opened = open_release(release)
    if sql is None:
        from .shell import terminal

        terminal(opened, level=level)
        return
    if explain:
        _say(opened.explain(sql))
        return
    answer = opened.sql(
        sql, level=level, simultaneous=simultaneous, estimator="population" if population else estimator
    )
    if form == "json":
        _say(answer.to_json())
    elif form == "csv":
        _say(answer.to_csv().rstrip("\n"))
    else:
        _say(str(answer))


def inspect_(release: ReleasePath, as_json: Json = False) -> None:
    """Show method, guarantee, assumptions, columns and sizes of a release.

    Example: sfumato inspect out
    """
    from .inspecting import describe, render
    from .query import open_release

    found = describe(open_release(release))
    _say(json.dumps(found, ensure_ascii=False, default=str) if as_json else render(found))


def verify(
    release: ReleasePath,
    test: Annotated[bool, typer.Option("--test", help="accept a release made with a seed")] = False,
) -> None:
    """Recompute the guarantee and the digests from the bundle alone; exit code 4 where they do not hold.

    Example: sfumato verify out
    """
    from .inspecting import verify as check
    from .query import open_release

    for line in check(open_release(release), test=test):
        _say(f"ok  {line}")


def demo(
    out: Annotated[str, typer.Option("--out", help="folder for the release")] = "demo-release",
) -> None:
    """Publish the bundled table, ask it questions, and show every answer beside the truth."""
    from .demo import run

    for line in run(Path(out)):
        _say(line)


# --- building the application -----------------------------------------------------------------------------------


def application(command: str | None) -> typer.Typer:
    """The application; the options of methods are loaded only for the commands that take them."""
    app = typer.Typer(
        name="sfumato",
        help="Publish a table with a stated privacy guarantee; ask it SQL and get every answer with its error.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback()
    def options(
        version: Annotated[bool, typer.Option("--version", help="print the version", is_eager=True)] = False,
        debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False,
    ) -> None:
        del version, debug  # `main` looks at them before anything is parsed

    for name, function in (("demo", demo), ("publish", publish), ("plan", plan), ("query", query)):
        app.command(name)(_with_method(function, load=command == name) if name in WITH_METHOD else function)
    app.command("inspect")(inspect_)
    app.command("verify")(verify)
    from . import choosing

    for name, function in choosing.COMMANDS.items():
        app.command(name)(function)
    return app


def _with_method(function: Callable[..., None], *, load: bool) -> Callable[..., None]:
    """The function with one option per field of the methods' specifications in place of **options."""
    signature = inspect.signature(function, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for name, (methods, help_text, flag) in (_method_options() if load else {}).items():
        said = f"--{RENAMED.get(name, name.replace('_', '-'))}"
        text = f"{', '.join(methods)}{': ' + help_text if help_text else ''}"
        option = typer.Option(said, help=text, rich_help_panel="Options of methods", show_default=False)
        kind = Annotated[bool | None if flag else str | None, option]  # type: ignore[valid-type]
        parameters.append(inspect.Parameter(f"m_{name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))

    def call(**arguments: Any) -> None:
        function(**arguments)

    call.__doc__, call.__name__ = function.__doc__, function.__name__
    ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    call.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in ordered}
    return call


def _method_options() -> dict[str, tuple[list[str], str, bool]]:
    """field -> (methods that have it, help, is it a flag)."""
    from .mechanisms import REGISTRY
    from .specs import fields_of

    found: dict[str, tuple[list[str], str, bool]] = {}
    for name, mechanism in REGISTRY.items():
        for field in fields_of(mechanism.Spec):
            methods, text, flag = found.setdefault(field.name, ([], field.help, field.kind is bool))
            methods.append(name)
            found[field.name] = (methods, text or field.help, flag)
    return found


def _spec(method: str, options: dict[str, Any]) -> Any:
    from .specs import build

    given = {name.removeprefix("m_"): value for name, value in options.items() if value is not None}
    return build(method, given, said=lambda name: f"--{RENAMED.get(name, name.replace('_', '-'))}")


def _roles(sa: Columns, qi: Columns, drop: Columns, keep: Columns, rest: str | None) -> Any:
    from .model.public import Roles

    def split(given: Columns) -> tuple[str, ...]:
        return tuple(name.strip() for part in given or () for name in part.split(",") if name.strip())

    return Roles(sensitive=split(sa), quasi=split(qi), identifying=split(drop), insensitive=split(keep), rest=rest)


def _domains(given: Columns) -> dict[str, list[str | None]]:
    domains: dict[str, list[str | None]] = {}
    for part in given or ():
        column, separator, file = part.partition("=")
        if not separator:
            raise SpecError(f'--domain takes COLUMN=FILE, got "{part}"', field="domain")
        try:
            lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError):
            raise SpecError(f'the domain file "{Path(file).name}" cannot be read', field="domain") from None
        domains[column] = [line or None for line in lines]
    return domains


def _engine(name: str, memory: str) -> Any:
    if name != "local":
        raise SpecError(f'there is no engine "{name}"; engines: local', field="engine")
    from .engines.local import LocalEngine

    return LocalEngine(memory=memory)


class _Progress:
    """A bar on stderr while a terminal is there to show it; silence otherwise."""

    def __enter__(self) -> Callable[[str, int, int], None]:
        if not sys.stderr.isatty():
            self._bar = None
            return lambda _stage, _done, _rows: None
        from rich.console import Console
        from rich.progress import Progress

        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._bar.start()
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, rows: int) -> None:
            assert self._bar is not None
            if stage not in tasks:
                tasks[stage] = self._bar.add_task(stage, total=rows)
            self._bar.update(tasks[stage], completed=done)

        return show

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _say(text: str) -> None:
    typer.echo(text)


def _note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if arguments and arguments[0] == "--version":
        _say(f"sfumato {__version__}")
        raise SystemExit(0)
    command = next((a for a in arguments if not a.startswith("-")), None)
    try:
        app = application(command)
        raise SystemExit(app(args=arguments, standalone_mode=False, prog_name="sfumato") or 0)
    except SfumatoError as error:
        _fail(str(error), error.exit_code, debug=debug)
    except (typer.TyperException, typer.BadParameter) as error:
        _fail(" ".join(error.format_message().split()), 2, debug=debug)
    except typer.Exit as error:
        raise SystemExit(error.exit_code) from None
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped; nothing was published", 130, debug=debug)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except Exception as error:
        _fail(f"sfumato failed ({type(error).__name__}); this is a fault in sfumato, run with --debug", 1, debug=debug)


def _fail(message: str, code: int, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(code) from None
