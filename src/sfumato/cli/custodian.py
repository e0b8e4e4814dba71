"""The commands of whoever holds the table: publish, plan."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .method_options import specification
from .options import Json, ReadingOptions, RoleOptions, Source
from .terminal import ProgressBar, note, say, say_json

MethodName = Annotated[str, typer.Option("--method", help="name of the method")]


def publish(
    source: Source,
    out: Annotated[str, typer.Argument(help="folder to write", metavar="OUT")],
    roles: RoleOptions,
    reading: ReadingOptions,
    method: MethodName = "uniform",
    force: Annotated[bool, typer.Option("--force", help="replace the release in OUT")] = False,
    sign: Annotated[
        str | None, typer.Option("--sign", help="Ed25519 private key (PEM) to sign the release with", metavar="KEY")
    ] = None,
    **options: Any,
) -> None:
    """Publish a table with a stated guarantee.

    Example: sfumato publish adult.parquet out --sa occupation --rest quasi --null-as-value --method uniform
    --rho1 1/5 --rho2 1/3
    """
    from ..publish import publish as run

    with ProgressBar() as progress:
        release = run(
            source,
            out,
            roles=roles.roles(),
            method=specification(method, options),
            seed=reading.seed,
            force=force,
            sign=sign,
            progress=progress,
            notify=note,
            **reading.arguments(),
        )
    for unit in release.opened.domains:
        if not unit.declared:
            names, size = ", ".join(unit.columns), len(unit)
            note(f"the domain of {names} ({size} values) is taken from the data; the release tells which values occur")
    if reading.seed is not None:
        note("published with a seed: for tests only; anyone with the seed can undo the noise")
    say(f"{out}: {release.manifest.rows:,} rows by {method} ({release.guarantee.trust})")
    say(release.guarantee.statement)


def plan(
    source: Source,
    roles: RoleOptions,
    reading: ReadingOptions,
    method: MethodName = "uniform",
    as_json: Json = False,
    full: Annotated[bool, typer.Option("--full", help="with --json: the decoy sets of splu too")] = False,
    page: Annotated[
        str | None, typer.Option("--report", help="also write an HTML page with curves", metavar="FILE")
    ] = None,
    fit: Annotated[
        str | None, typer.Option("--fit", help="foresee the errors of this model's coefficients", metavar="FORMULA")
    ] = None,
    family: Annotated[str, typer.Option("--family", help="of --fit: gaussian, binomial, poisson, multinomial")] = (
        "gaussian"
    ),
    recode: Annotated[str | None, typer.Option("--recode", help="of --fit: merged levels", metavar="FILE.json")] = None,
    force: Annotated[bool, typer.Option("--force", help="let reports replace files that are no reports")] = False,
    **options: Any,
) -> None:
    """Show what would be published and what it costs; nothing is written. For the custodian: it holds true counts.

    Example: sfumato plan adult.parquet --sa occupation --rest quasi --null-as-value --method uniform --rho1 1/5
    --rho2 1/3
    """
    from ..publish import prepare
    from ..publishing.randomness import Secret
    from ..reports.places import check_places, write_html
    from ..reports.plan_text import render

    check_places({"--report": page}, source=source, force=force, twins=False)
    prepared = prepare(
        source,
        roles=roles.roles(),
        method=specification(method, options),
        secret=Secret.fresh() if reading.seed is None else Secret.from_seed(reading.seed),
        **reading.arguments(),
    )
    report = prepared.report(full=full)
    if fit is not None:
        from ..choosing.foresee import foreseen_fit
        from .inference import recode_file

        engine = reading.arguments()["engine"]
        report["fit"] = foreseen_fit(prepared, engine, fit, family=family, recode=recode_file(recode))
    if page is not None:
        from ..reports.curves import plan_page

        write_html(page, plan_page(report, render(report), prepared.curves()), force=force)
    if as_json:
        say_json(report)
    else:
        say(render(report))


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
