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
    **options: Any,
) -> None:
    """Show what would be published and what it costs; nothing is written. For the custodian: it holds true counts.

    Example: sfumato plan adult.parquet --sa occupation --rest quasi --null-as-value --method uniform --rho1 1/5
    --rho2 1/3
    """
    from ..publish import prepare
    from ..publishing.randomness import Secret
    from ..reports.plan_text import render

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
        from ..reports.curves import plan_page, write_page

        write_page(page, plan_page(report, render(report), prepared.curves()))
    if as_json:
        say_json(report)
    else:
        say(render(report))
