"""The commands that choose a method (compare, recommend) and that repeat the papers' experiments (reproduce)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .cli import (
    Columns,
    Delimiter,
    DomainFiles,
    Drop,
    Json,
    Keep,
    Memory,
    Nulls,
    Quasi,
    Rest,
    Seed,
    Sensitive,
    Source,
    _domains,
    _engine,
    _note,
    _Progress,
    _roles,
    _say,
)
from .errors import SpecError

Bound = Annotated[str | None, typer.Option("--bound", help="bound on the posterior, for example 1/6")]
PriorOption = Annotated[str | None, typer.Option("--rho1", help="prior of uniform and small-domain; default: chosen")]
WorkloadFile = Annotated[str | None, typer.Option("--workload", help="file of SQL questions; default: the query pool")]
Hierarchies = Annotated[str | None, typer.Option("--hierarchies", help="of l-diversity: column=WHAT,...")]


def compare(
    source: Source,
    sa: Sensitive = None,
    qi: Quasi = None,
    drop: Drop = None,
    keep: Keep = None,
    rest: Rest = None,
    bound: Bound = None,
    rho1: PriorOption = None,
    workload: WorkloadFile = None,
    releases: Annotated[int, typer.Option("--releases", help="trial releases per method", min=1)] = 5,
    methods: Annotated[str | None, typer.Option("--methods", help="only these, with commas")] = None,
    hierarchies: Hierarchies = None,
    report: Annotated[str | None, typer.Option("--report", help="HTML file for the custodian")] = None,
    public: Annotated[str | None, typer.Option("--public-report", help="HTML file without anything private")] = None,
    charts: Annotated[str | None, typer.Option("--charts", help="folder for the charts as PNG and SVG")] = None,
    seed: Seed = None,
    null_as_value: Nulls = False,
    domain: DomainFiles = None,
    delimiter: Delimiter = None,
    memory: Memory = "1500MB",
    as_json: Json = False,
) -> None:
    """Compare every method at the same bound on the posterior. For the custodian: it knows the truth.

    Example: sfumato compare adult.parquet --sa occupation --qi age,sex,education --rest drop --null-as-value
    --bound 1/3 --report compare.html
    """
    if bound is None:
        raise SpecError("compare needs a bound on the posterior, for example --bound 1/6", field="bound")
    from .compare import compare as run
    from .comparisons import render_comparison

    with _Progress() as progress:
        document = run(
            source,
            roles=_roles(sa, qi, drop, keep, rest),
            releases=releases,
            methods=[m.strip() for m in methods.split(",")] if methods else None,
            seed=seed,
            progress=progress,
            keep_points=400 if report or charts else 0,
            frontier=bool(report or charts),
            **_choosing(bound, rho1, workload, hierarchies, null_as_value, domain, delimiter, memory),
        )
    if report or public or charts:
        from .reports import write_comparison

        for path in write_comparison(document, custodian=report, public=public, charts=charts):
            _note(f"written: {path}")
    _say(json.dumps(document, ensure_ascii=False, default=str) if as_json else render_comparison(document))


def recommend(
    source: Source,
    sa: Sensitive = None,
    qi: Quasi = None,
    drop: Drop = None,
    keep: Keep = None,
    rest: Rest = None,
    bound: Bound = None,
    accuracy: Annotated[float | None, typer.Option("--accuracy", help="mean relative error to reach")] = None,
    trust: Annotated[str, typer.Option("--trust", help="proved, or conditional for both")] = "proved",
    rho1: PriorOption = None,
    workload: WorkloadFile = None,
    hierarchies: Hierarchies = None,
    seed: Seed = None,
    null_as_value: Nulls = False,
    domain: DomainFiles = None,
    delimiter: Delimiter = None,
    memory: Memory = "1500MB",
    as_json: Json = False,
) -> None:
    """Recommend a method and its parameters for a bound, or the strongest bound for an accuracy.

    Example: sfumato recommend adult.parquet --sa occupation --qi age,sex,education --rest drop --null-as-value
    --bound 1/3
    """
    from .comparisons import render_recommendation
    from .recommend import recommend as run

    with _Progress() as progress:
        document = run(
            source,
            roles=_roles(sa, qi, drop, keep, rest),
            accuracy=accuracy,
            trust=trust,
            seed=seed,
            progress=progress,
            **_choosing(bound, rho1, workload, hierarchies, null_as_value, domain, delimiter, memory),
        )
    _say(json.dumps(document, ensure_ascii=False, default=str) if as_json else render_recommendation(document))


def _choosing(
    bound: str | None,
    rho1: str | None,
    workload: str | None,
    hierarchies: str | None,
    null_as_value: bool,
    domain: Columns,
    delimiter: str | None,
    memory: str,
) -> dict[str, Any]:
    """What compare and recommend hand on as it is."""
    text = None
    if workload is not None:
        try:
            text = Path(workload).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise SpecError(f'the workload file "{Path(workload).name}" cannot be read', field="workload") from None
    return {
        "bound": bound,
        "rho1": rho1,
        "workload": text,
        "hierarchies": hierarchies,
        "engine": _engine("local", memory),
        "domains": _domains(domain),
        "null_as_value": null_as_value,
        "delimiter": delimiter,
    }


def reproduce(
    paper: Annotated[str, typer.Argument(help="pp, splu, distribution or rr", metavar="PAPER")],
    report: Annotated[str | None, typer.Option("--report", help="HTML file to write")] = None,
    as_json: Json = False,
) -> None:
    """Repeat a paper's tables and figures: published numbers beside ours, one line on every difference.

    Adult is in the package; larger tables are read from the folder SFUMATO_DATA. Example: sfumato reproduce rr
    """
    from .reproduce import render
    from .reproduce import reproduce as run

    shown = sys.stderr.isatty()
    document = run(paper, (lambda item: typer.echo(f"  {item}", err=True)) if shown else None)
    if report:
        from .reports import write_reproduction

        for path in write_reproduction(document, report):
            _note(f"written: {path}")
    _say(json.dumps(document, ensure_ascii=False) if as_json else render(document))


COMMANDS: dict[str, Callable[..., None]] = {"compare": compare, "recommend": recommend, "reproduce": reproduce}
