"""The commands that choose a method: compare, recommend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError
from .options import Json, ReadingOptions, RoleOptions, Source, SourceOptions
from .terminal import ProgressBar, note, say, say_json

Bound = Annotated[str | None, typer.Option("--bound", help="bound on the posterior, for example 1/6")]
PriorOption = Annotated[str | None, typer.Option("--rho1", help="prior of methods that have one; default: chosen")]
WorkloadFile = Annotated[str | None, typer.Option("--workload", help="file of SQL questions; default: the query pool")]
Hierarchies = Annotated[str | None, typer.Option("--hierarchies", help="of methods that generalise: column=WHAT,...")]


def compare(
    source: Source,
    roles: RoleOptions,
    where: SourceOptions,
    reading: ReadingOptions,
    bound: Bound = None,
    rho1: PriorOption = None,
    workload: WorkloadFile = None,
    releases: Annotated[int, typer.Option("--releases", help="trial releases per method", min=1)] = 5,
    methods: Annotated[str | None, typer.Option("--methods", help="only these, with commas")] = None,
    hierarchies: Hierarchies = None,
    report: Annotated[str | None, typer.Option("--report", help="HTML file for the custodian")] = None,
    public: Annotated[str | None, typer.Option("--public-report", help="HTML file without anything private")] = None,
    charts: Annotated[str | None, typer.Option("--charts", help="folder for the charts as PNG and SVG")] = None,
    force: Annotated[bool, typer.Option("--force", help="let reports replace files that are no reports")] = False,
    as_json: Json = False,
) -> None:
    """Compare every method at the same bound on the posterior. For the custodian: it knows the truth.

    Example: sfumato compare adult.parquet --sa occupation --qi age,sex,education --rest drop --null-as-value
    --bound 1/3 --report compare.html
    """
    if bound is None:
        raise SpecError("compare needs a bound on the posterior, for example --bound 1/6", field="bound")
    from ..choosing.compare import compare as run
    from ..reports.choice_text import render_comparison
    from ..reports.report_files import check_places

    check_places({"--report": report, "--public-report": public}, charts=charts, source=source, force=force)
    with ProgressBar() as progress:
        document = run(
            where.source(source),
            roles=roles.roles(),
            releases=releases,
            methods=[m.strip() for m in methods.split(",")] if methods else None,
            seed=reading.seed,
            progress=progress,
            keep_points=400 if report or charts else 0,
            frontier=bool(report or charts),
            **_choosing(bound, rho1, workload, hierarchies),
            **reading.arguments(),
        )
    if report or public or charts:
        from ..reports.comparison import write_comparison

        for path in write_comparison(document, custodian=report, public=public, charts=charts, force=force):
            note(f"written: {path}")
    if as_json:
        say_json(document)
    else:
        say(render_comparison(document))


def recommend(
    source: Source,
    roles: RoleOptions,
    where: SourceOptions,
    reading: ReadingOptions,
    bound: Bound = None,
    accuracy: Annotated[float | None, typer.Option("--accuracy", help="mean relative error to reach")] = None,
    trust: Annotated[str, typer.Option("--trust", help="proved, or conditional for both")] = "proved",
    rho1: PriorOption = None,
    workload: WorkloadFile = None,
    hierarchies: Hierarchies = None,
    as_json: Json = False,
) -> None:
    """Recommend a method and its parameters for a bound, or the strongest bound for an accuracy.

    Example: sfumato recommend adult.parquet --sa occupation --qi age,sex,education --rest drop --null-as-value
    --bound 1/3
    """
    from ..choosing.recommend import recommend as run
    from ..reports.choice_text import render_recommendation

    with ProgressBar() as progress:
        document = run(
            where.source(source),
            roles=roles.roles(),
            accuracy=accuracy,
            trust=trust,
            seed=reading.seed,
            progress=progress,
            **_choosing(bound, rho1, workload, hierarchies),
            **reading.arguments(),
        )
    if as_json:
        say_json(document)
    else:
        say(render_recommendation(document))


def _choosing(bound: str | None, rho1: str | None, workload: str | None, hierarchies: str | None) -> dict[str, Any]:
    """What compare and recommend hand on as it is; the workload's file is read."""
    text = None
    if workload is not None:
        try:
            text = Path(workload).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise SpecError(f'the workload file "{Path(workload).name}" cannot be read', field="workload") from None
    return {"bound": bound, "rho1": rho1, "workload": text, "hierarchies": hierarchies}
