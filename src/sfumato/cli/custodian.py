"""The commands of whoever holds the table: look, publish, plan, audit, clean."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..choosing import DEFAULT
from ..engines.source import MEMORY
from ..errors import SpecError
from ..model.names import option_name
from .options import (
    NONE,
    PREFIX,
    Json,
    Memory,
    Quasi,
    ReadingOptions,
    ReleasePath,
    RoleOptions,
    Sensitive,
    Source,
    SourceOptions,
    names,
    option,
)
from .terminal import note, progress_bar, say, say_json

if TYPE_CHECKING:
    from ..engines.source import Source as TableSource

METHOD, MODEL, OUTPUT = "Method", "Errors of a model", "Output"
READ_BY_COMMANDS = ("bins", "report")  # fields of methods whose options the commands read themselves
MethodName = Annotated[
    str | None,
    option("--method NAME", "name of the method; sfumato recommend helps", DEFAULT, without=DEFAULT, panel=METHOD),
]


def _asked(
    roles: RoleOptions, method: str | None, table: TableSource, options: dict[str, Any]
) -> tuple[Any, TableSource]:
    """The specification that the options and the roles file stand for; the source without the bins that it takes."""
    from ..methods import method_named
    from ..methods.registry import build, fields_of
    from ..publishing.custodian import READERS

    file = roles.file() if roles.roles_file is not None else None
    given: dict[str, Any] = {}
    if file is not None and file.method is not None:
        if method not in {None, file.method}:
            raise SpecError(f"the roles file names the method {file.method}; leave --method out", field="method")
        method = file.method
        given = {PREFIX + name.replace("-", "_"): value for name, value in file.options.items()}
        twice = [name for name, value in options.items() if value is not None and name in given]
        if twice:
            name = option_name(twice[0].removeprefix(PREFIX))
            raise SpecError(f"{name} stands in the roles file too; say it in one place", field=twice[0])
    method = method or DEFAULT
    fields = {field.name for field in fields_of(method_named(method).spec)}
    for name in fields:
        if PREFIX + name not in options and name not in READ_BY_COMMANDS:
            what = f"{option_name(name)} is an option of every method; rename the field"
            raise SpecError(f'{method} has a field "{name}", but {what}', field="method")
    own: dict[str, tuple[float, ...]] = {}
    if "bins" in fields:  # of sensitive columns: the method knows their order
        own = {r.column: r.edges for r in table.recode if r.edges and r.column in roles.roles().sensitive}
    given = options | given | ({PREFIX + "bins": own} if own else {})
    values = {name.removeprefix(PREFIX): value for name, value in given.items() if value is not None}
    others = tuple(r for r in table.recode if not (r.edges and r.column in own))
    return build(method, values, option_name=option_name, readers=READERS), replace(table, recode=others)


def look(
    source: Source,
    where: SourceOptions,
    sa: Sensitive = None,
    qi: Quasi = None,
    rho1: Annotated[
        str | None, option("--rho1 SHARE", "prior to compare shares in cells with", "1/5", without=NONE)
    ] = None,
    show_values: Annotated[bool, option("--show-values", "show the most frequent values", panel=OUTPUT)] = (False),
    write_roles: Annotated[
        str | None,
        option(
            "--write-roles FILE.toml",
            "new file of suggested roles, for --roles",
            "roles.toml",
            without=NONE,
            panel=OUTPUT,
        ),
    ] = None,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """Look at a table before deciding: columns, suggested roles, how far they tell people apart. For the custodian.

    Example: sfumato look adult.parquet --sa occupation --qi age,sex,education --rho1 1/5
    """
    from ..choosing.look import look as run
    from ..engines import engine_named

    found = run(
        where.source(source),
        quasi=names(qi),
        sensitive=names(sa),
        rho1=rho1,
        show_values=show_values,
        engine=engine_named(memory=MEMORY if memory is None else memory),
    )
    for line in found.notes:
        note(line)
    if write_roles is not None:
        from ..publishing.custodian import roles_text
        from ..publishing.custodian import write_roles as write

        write(write_roles, roles_text(found.roles(), found.reasons(), DEFAULT))
        note(f"written: {write_roles}; check every role before publishing with --roles")
    if as_json:
        say_json(found.to_dict())
    else:
        say(str(found))


REPORT_KINDS = ("set", "value")  # --report of a method; any other --report of `plan` names a page to write


def publish(
    source: Source,
    out: Annotated[str, typer.Argument(help="folder to write", metavar="OUT")],
    roles: RoleOptions,
    where: SourceOptions,
    reading: ReadingOptions,
    method: MethodName = None,
    force: Annotated[bool, option("--force", "replace the release in OUT", panel=OUTPUT)] = False,
    accept_unprotected: Annotated[
        bool, option("--accept-unprotected", "even if more than half of the rows are not covered", panel=METHOD)
    ] = False,
    sign: Annotated[
        str | None,
        option(
            "--sign KEY",
            "Ed25519 private key (PEM) to sign the release with",
            "key.pem",
            without="not signed",
            panel=OUTPUT,
        ),
    ] = None,
    **options: Any,
) -> None:
    """Publish a table with a stated guarantee.

    Example: sfumato publish adult.parquet out --sa occupation --rest quasi --null-as-value --method uniform
    --rho1 1/5 --rho2 1/3
    """
    from ..publish import into_folder
    from ..reports.text import render_readers, render_unprotected

    table, arguments = where.source(source), reading.arguments(spark=True)
    asked, to_publish = _asked(roles, method, table, options)
    unnamed = method is None and (roles.roles_file is None or roles.file().method is None)
    with progress_bar() as progress:
        # what is on a cluster stays there
        others = _more_accurate(table, roles, reading, asked) if unnamed and reading.engine == "local" else ()
        manifest = into_folder(
            to_publish,
            out,
            roles=roles.roles(),
            method=asked,
            seed=reading.seed,
            force=force,
            accept_unprotected=accept_unprotected,
            sign=sign,
            progress=progress,
            notify=note,
            **arguments,
        )
    for unit in manifest.domains():
        if not unit.declared:
            names, size = ", ".join(unit.columns), len(unit)
            note(f"the domain of {names} ({size} values) is taken from the data; the release tells which values occur")
    if reading.seed is not None:
        note("published with a seed: for tests only; anyone with the seed can undo the noise")
    say(f"{out}: {manifest.rows:,} rows by {asked.method} ({manifest.guarantee.trust})")
    stated = manifest.guarantee.model_dump(mode="json", exclude_none=True)
    say(stated["statement"])
    say(render_readers(stated["readers"]))
    left = render_unprotected(stated.get("unprotected"))
    if left:
        say(left)
    for line in others:
        say(line)


def _more_accurate(source: Any, roles: RoleOptions, reading: ReadingOptions, asked: Any) -> tuple[str, ...]:
    """Why this method, and what others would give up for how much less error; by their plans."""
    from ..choosing.recommend import HELD, alternatives
    from ..model.names import exact
    from ..publishing.randomness import Secret

    secret = Secret.from_seed(reading.seed)
    rhos = {"rho1": exact(asked.rho1, "rho1"), "rho2": exact(asked.rho2, "rho2")}
    own, better = alternatives(source, roles=roles.roles(), secret=secret, **rhos, **reading.arguments())
    why = (
        f"{own.method}: no --method was given; it is the most accurate that holds the readers "
        f"{' and '.join(HELD)}, and "
        f"the values' counts will err by {own.error:.2%} of the rows in all"
    )
    return (why, *(found.against(own) for found in better))


def plan(
    source: Source,
    roles: RoleOptions,
    where: SourceOptions,
    reading: ReadingOptions,
    method: MethodName = None,
    as_json: Json = False,
    full: Annotated[
        bool, option("--full", "with --json: also what is left out because it is long", panel=OUTPUT)
    ] = False,
    reports: Annotated[
        list[str] | None,
        option(
            "--report FILE|set|value",
            "FILE: also write an HTML page with curves; set or value: what the method publishes",
            "plan.html",
            without=NONE,
            panel=OUTPUT,
        ),
    ] = None,
    fit: Annotated[
        str | None,
        option(
            "--fit FORMULA",
            "foresee the errors of this model's coefficients",
            '"age ~ C(sex)"',
            without=NONE,
            panel=MODEL,
        ),
    ] = None,
    family: Annotated[
        str, option("--family NAME", "of --fit: gaussian, binomial, poisson, multinomial", "binomial", panel=MODEL)
    ] = "gaussian",
    recode: Annotated[
        str | None, option("--recode FILE.json", "of --fit: merged levels", "groups.json", without=NONE, panel=MODEL)
    ] = None,
    force: Annotated[bool, option("--force", "let reports replace files that are no reports", panel=OUTPUT)] = False,
    **options: Any,
) -> None:
    """Show what would be published and what it costs; nothing is written. For the custodian: it holds true counts.

    Example: sfumato plan adult.parquet --sa occupation --rest quasi --null-as-value --method uniform --rho1 1/5
    --rho2 1/3
    """
    if full and not as_json:
        raise SpecError("--full goes with --json", field="full")
    if fit is None and (recode is not None or family != "gaussian"):
        alone = "family" if recode is None else "recode"
        raise SpecError(f"--{alone} goes with --fit", field=alone)
    from ..publish import prepare
    from ..publishing.randomness import Secret
    from ..reports.documents import render_plan
    from ..reports.report_files import check_places, write_html

    kinds, pages = ([r for r in reports or () if (r in REPORT_KINDS) is kind] for kind in (True, False))
    page = pages[-1] if pages else None
    if kinds:
        options["m_report"] = kinds[-1]
    asked, table = _asked(roles, method, where.source(source), options)
    check_places({"--report": page}, source=source, force=force, twins=False)
    with progress_bar() as progress:
        prepared = prepare(
            table,
            roles=roles.roles(),
            method=asked,
            secret=Secret.from_seed(reading.seed),
            progress=progress,
            **reading.arguments(spark=True),
        )
    for line in prepared.table.notes:
        note(line)
    report = prepared.report(full=full)
    if fit is not None:
        from ..choosing.foresee import foreseen_fit
        from .analyst import recode_file

        engine = reading.arguments()["engine"]
        report["fit"] = foreseen_fit(prepared, engine, fit, family=family, recode=recode_file(recode))
    if page is not None:
        from ..reports.pages import plan_page

        write_html(page, plan_page(report, render_plan(report), prepared.curves()), force=force)
    if as_json:
        say_json(report)
    else:
        say(render_plan(report))


def clean() -> None:
    """Remove what runs that were killed left in the temporary folder; it may hold rows of a table in clear.

    Runs that still work are not touched. Example: sfumato clean
    """
    from ..engines.scratch import remove_left_overs

    removed = remove_left_overs()
    say(
        f"{removed} {'folder' if removed == 1 else 'folders'} of killed runs removed"
        if removed
        else "nothing to remove"
    )


def mention_left_overs() -> None:
    """A note where killed runs left something behind."""
    from ..engines.scratch import left_overs

    found = len(left_overs())
    if found:
        runs = "a run that was killed has" if found == 1 else f"{found} runs that were killed have"
        note(f"{runs} left rows of a table in the temporary folder; remove them with: sfumato clean")


def audit(
    release: ReleasePath,
    truth: Annotated[str, option("--truth SOURCE", "the table it was made of", "adult.parquet")],
    where: SourceOptions,
    second: Annotated[
        str | None, option("--second RELEASE", "another release of the same table", "out2", without=NONE)
    ] = None,
    targets: Annotated[int, option("--targets NUMBER", "people to attack", "5000", min=50)] = 1000,
    as_json: Json = False,
    report: Annotated[
        str | None, option("--report FILE", "HTML file to write", "audit.html", without=NONE, panel="Output")
    ] = None,
    force: Annotated[bool, option("--force", "replace the report", panel="Output")] = False,
) -> None:
    """Attack a release in every way that is built in, and count the successes beside what it promises.

    For the custodian: it looks at the original table to score. Example: sfumato audit out --truth adult.parquet
    """
    from ..audit.score import audit as run
    from ..query import open_release
    from ..reports.documents import render_audit
    from ..reports.pages import audit_page
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
        say(render_audit(document))
