"""The commands of whoever holds the table: publish, plan."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .method_options import specification
from .options import Json, ReadingOptions, RoleOptions, Source
from .terminal import ProgressBar, note, say, say_json

MethodName = Annotated[str, typer.Option("--method", help="name of the method")]

REPORT_KINDS = ("set", "value")  # --report of a method; any other --report of `plan` names a page to write


def publish(
    source: Source,
    out: Annotated[str, typer.Argument(help="folder to write", metavar="OUT")],
    roles: RoleOptions,
    reading: ReadingOptions,
    method: MethodName = "subset-response",
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
    method: MethodName = "subset-response",
    as_json: Json = False,
    full: Annotated[bool, typer.Option("--full", help="with --json: the decoy sets of splu too")] = False,
    reports: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            help="FILE: also write an HTML page with curves; set or value: what small-domain publishes",
            metavar="FILE|set|value",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Show what would be published and what it costs; nothing is written. For the custodian: it holds true counts.

    Example: sfumato plan adult.parquet --sa occupation --rest quasi --null-as-value --method uniform --rho1 1/5
    --rho2 1/3
    """
    from ..publish import prepare
    from ..publishing.randomness import Secret
    from ..reports.plan_text import render

    kinds, pages = ([r for r in reports or () if (r in REPORT_KINDS) is kind] for kind in (True, False))
    page = pages[-1] if pages else None
    if kinds:
        options["m_report"] = kinds[-1]
    prepared = prepare(
        source,
        roles=roles.roles(),
        method=specification(method, options),
        secret=Secret.fresh() if reading.seed is None else Secret.from_seed(reading.seed),
        **reading.arguments(),
    )
    report = prepared.report(full=full)
    if page is not None:
        from ..reports.curves import plan_page, write_page

        write_page(page, plan_page(report, render(report), prepared.curves()))
    if as_json:
        say_json(report)
    else:
        say(render(report))
